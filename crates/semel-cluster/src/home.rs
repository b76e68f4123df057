//! A directory for one server: its data, its socket and its log.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{Error, account::Account};

/// Where everything of one server lives. It is not removed when this value goes: whoever ends the processes in it
/// (see [`crate::watchdog`]) removes it afterwards, also when this process was killed.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    pub(crate) account: Account,
}

impl Home {
    /// A new, empty directory on the disk that only the account may enter. It lies among the temporary files and not
    /// in the target directory, for that may be in a home directory that is closed to the account, and a socket's path
    /// must be short.
    pub(crate) fn on_disk(account: &'static str) -> Result<Self, Error> {
        Self::create(&std::env::temp_dir(), account)
    }

    /// The same in memory, or on the disk if memory is scarce. What is killed here are processes, not machines, so
    /// nothing is lost that a disk would have kept, and tests do not wait for each other's fsyncs.
    pub(crate) fn in_memory(account: &'static str) -> Result<Self, Error> {
        /// A few clusters at a time, each with a few hundred megabytes, of which most are the log's.
        const ENOUGH: u64 = 3 << 30;
        let memory = Path::new("/dev/shm");
        match rustix::fs::statvfs(memory) {
            Ok(room) if room.f_bavail.saturating_mul(room.f_frsize) >= ENOUGH => {
                Self::create(memory, account)
            }
            _ => Self::on_disk(account),
        }
    }

    fn create(parent: &Path, account: &'static str) -> Result<Self, Error> {
        let account = Account::find(account)?;
        let directory = tempfile::Builder::new()
            .prefix("semel-")
            // Whoever reaches the socket is the superuser.
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(Error::path("make a directory in", parent))?;
        account.own(directory.path())?;
        Ok(Self { path: directory.keep(), account })
    }

    /// The home of a server that another process started.
    pub(crate) fn existing(path: PathBuf, account: &'static str) -> Result<Self, Error> {
        Ok(Self { path, account: Account::find(account)? })
    }

    /// The directory itself, which is also where the socket is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The server's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// What the server wrote.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// The last lines of the log, for messages.
    pub(crate) fn log_tail(&self) -> String {
        const LINES: usize = 30;
        let log = std::fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Writes a file that the server reads and nobody else does.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        std::fs::write(&path, text).map_err(Error::path("write", &path))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))
            .map_err(Error::path("close", &path))?;
        self.account.own(&path)?;
        Ok(path)
    }
}
