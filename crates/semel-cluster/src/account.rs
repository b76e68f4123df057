//! Whom a server runs as: whoever runs the tests, or the user that its package made where that is root. Most servers
//! refuse root, and none of them should have it.

use std::{
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::Command,
};

use crate::Error;

/// The users of the packages that `make need` installs.
pub(crate) const POSTGRES: &str = "postgres";
pub(crate) const MYSQL: &str = "mysql";
pub(crate) const REDIS: &str = "redis";
pub(crate) const RABBITMQ: &str = "rabbitmq";

/// The user and group that own a server's files and processes; `None` is whoever we are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account(Option<(u32, u32)>);

impl Account {
    /// The account to use on this machine, of this name where we are root.
    pub(crate) fn find(name: &'static str) -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let accounts = std::fs::read_to_string("/etc/passwd").map_err(Error::path("read", "/etc/passwd"))?;
        entry(&accounts, name).map(|ids| Self(Some(ids))).ok_or(Error::NoAccount(name))
    }

    /// A command that will run as this account. The system is asked directly: runuser would open a PAM session and
    /// stand between us and the process whose id we need.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Self(Some((user, group))) = self {
            command.uid(user).gid(group).env_remove("HOME").env_remove("USER");
        }
        // The root's working directory may be closed to the account; servers' programs complain about that.
        command.current_dir("/");
        remove_connection_variables(&mut command);
        command
    }

    /// Gives a file or directory to this account.
    pub(crate) fn own(self, path: &Path) -> Result<(), Error> {
        match self.0 {
            Some((user, group)) => chown(path, Some(user), Some(group)).map_err(Error::path("chown", path)),
            None => Ok(()),
        }
    }
}

/// A developer's PGHOST, MYSQL_PWD or RABBITMQ_NODENAME must not send a test to a server that matters.
fn remove_connection_variables(command: &mut Command) {
    const PREFIXES: [&str; 6] = ["PG", "MYSQL", "MARIADB", "REDIS", "RABBITMQ", "ERL"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
}

/// The user's and group's number of a name in the format of /etc/passwd.
fn entry(accounts: &str, name: &str) -> Option<(u32, u32)> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts =
            "root:x:0:0:root:/root:/bin/bash\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(entry(accounts, "postgres"), Some((101, 104)));
        assert_eq!(entry(accounts, "postgre"), None);
    }
}
