//! A directory for one cluster: its data, its socket and its log.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{Error, account::Account};

/// Where everything of one cluster lives. It is not removed when this value goes: whoever ends the processes in it
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
    pub(crate) fn on_disk() -> Result<Self, Error> {
        Self::create(&std::env::temp_dir())
    }

    /// The same in memory, or on the disk if memory is scarce. What is killed here are processes, not machines, so
    /// nothing is lost that a disk would have kept, and tests do not wait for each other's fsyncs.
    pub(crate) fn in_memory() -> Result<Self, Error> {
        /// A few clusters at a time, each with a few hundred megabytes, of which most are the log's.
        const ENOUGH: u64 = 3 << 30;
        let memory = Path::new("/dev/shm");
        match rustix::fs::statvfs(memory) {
            Ok(room) if room.f_bavail.saturating_mul(room.f_frsize) >= ENOUGH => Self::create(memory),
            _ => Self::on_disk(),
        }
    }

    fn create(parent: &Path) -> Result<Self, Error> {
        let account = Account::find()?;
        let directory = tempfile::Builder::new()
            .prefix("semel-pg-")
            // Whoever reaches the socket is the superuser.
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(Error::path("make a directory in", parent))?;
        account.own(directory.path())?;
        Ok(Self { path: directory.keep(), account })
    }

    /// The home of a cluster that another process started.
    pub(crate) fn existing(path: PathBuf) -> Result<Self, Error> {
        Ok(Self { path, account: Account::find()? })
    }

    /// The directory itself, which is also where the socket is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// PostgreSQL's data directory.
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

    /// The socket of a server on this port.
    pub(crate) fn socket(&self, port: u16) -> PathBuf {
        self.path.join(format!(".s.PGSQL.{port}"))
    }
}
