//! One MariaDB server: its data directory is made, it is started and asked.

use std::{
    io::Read,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{Error, home::Home, programs::program, server::Settings, sql::succeeded};

pub(super) const PROGRAM: &str = "mariadbd";

/// Files of the usual size would be most of what a throw-away server costs. They must be the same at every start.
const LOG_SIZE: &str = "--innodb-log-file-size=16M";

/// Makes the data directory. Root comes through the socket and needs no password, for only the account reaches it.
pub(super) fn initialise(home: &Home) -> Result<(), Error> {
    let mut command = at(home, "mariadb-install-db")?;
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
    command.arg(LOG_SIZE);
    let output = command.stdin(Stdio::null()).output().map_err(Error::io("run mariadb-install-db"))?;
    succeeded("mariadb-install-db", &output).map(drop)
}

/// The command that runs a server on a directory that was initialised.
pub(super) fn command(home: &Home, settings: &Settings) -> Result<Command, Error> {
    let mut command = at(home, PROGRAM)?;
    command.arg(format!("--socket={}", socket(home).display()));
    command.args([LOG_SIZE, "--innodb-buffer-pool-size=64M", "--skip-name-resolve"]);
    // Most databases in production ignore case. SQL that forgets to ask for bytes must not pass here.
    command.args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"]);
    command.args(settings.iter().map(|(name, value)| format!("--{name}={value}")));
    Ok(command)
}

/// A program of the server, which keeps everything in the home. Temporary files too: a server that starts removes those
/// of others from the directory that they share.
fn at(home: &Home, name: &str) -> Result<Command, Error> {
    let mut command = home.account.command(&program(name)?);
    command.arg("--no-defaults").arg(format!("--datadir={}", home.data().display()));
    command.arg(format!("--tmpdir={}", home.path().display()));
    Ok(command)
}

pub(super) fn socket(home: &Home) -> PathBuf {
    home.path().join("socket")
}

/// The socket is there before the server is; who is served is greeted.
pub(super) fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let patient = stream.set_read_timeout(Some(Duration::from_secs(1)));
    patient.is_ok() && stream.read_exact(&mut [0; 1]).is_ok()
}

/// Runs SQL as root; rows come back a line each, columns separated by tabs.
pub(super) fn sql(home: &Home, sql: &str) -> Result<String, Error> {
    let mut command = home.account.command(&program("mariadb")?);
    command.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
    command.arg(format!("--socket={}", socket(home).display())).args(["--execute", sql]);
    let output = command.stdin(Stdio::null()).output().map_err(Error::io("run mariadb"))?;
    succeeded("mariadb", &output)
}
