//! Where the servers' programs are.
//!
//! Debian keeps those of PostgreSQL's server off the PATH, a directory per version: `pg_config` knows, and where it is missing
//! the newest version wins. `SEMEL_POSTGRES_BIN` names another (`tools/postgres` has every version that Semel supports).

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::Error;

/// The path of a program that belongs to a server or stands beside it (`initdb`, `psql`, `pgbouncer`, `mariadbd`).
pub(crate) fn program(name: &str) -> Result<PathBuf, Error> {
    directories()
        .iter()
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| Error::Missing(name.to_owned()))
}

/// The major version of the server that [`program`] finds: 13 to 18 are supported by Semel.
pub fn server_version() -> Result<u32, Error> {
    let postgres = program("postgres")?;
    let output = Command::new(&postgres).arg("--version").output().map_err(Error::path("run", &postgres))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    major(&text).ok_or(Error::Failed { program: "postgres --version".into(), output: text })
}

/// The major version in `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)` or `postgres (PostgreSQL) 18beta1`.
fn major(text: &str) -> Option<u32> {
    let number = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

/// Directories to look in, the likeliest first; they do not change while a process runs.
fn directories() -> &'static [PathBuf] {
    static DIRECTORIES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    DIRECTORIES.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
        // A server's own directory comes before the PATH, where Debian keeps a wrapper of `psql` that is slow.
        let mut all: Vec<PathBuf> = chosen_directory().into_iter().chain(config_directory()).collect();
        all.extend(debian_directories(Path::new("/usr/lib/postgresql")));
        // The one on root's PATH changes the user by itself, and refuses all users but two.
        all.push(PathBuf::from("/usr/lib/rabbitmq/bin"));
        all.extend(std::env::split_paths(&path));
        // mariadbd, pgbouncer, ip and nft are where only root's PATH looks.
        all.extend([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]);
        all
    })
}

/// The one that whoever runs this has chosen. A choice that has no server in it is a mistake, and no test should pass by it.
fn chosen_directory() -> Option<PathBuf> {
    let directory = PathBuf::from(std::env::var_os("SEMEL_POSTGRES_BIN")?);
    assert!(
        directory.join("postgres").is_file(),
        "SEMEL_POSTGRES_BIN: no postgres in {}",
        directory.display()
    );
    Some(directory)
}

/// What `pg_config` says, if there is a server with it: a machine may have the client's headers alone.
fn config_directory() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let directory = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    directory.join("postgres").is_file().then_some(directory)
}

/// `/usr/lib/postgresql/15/bin` and its like, the newest version first.
fn debian_directories(root: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<u32> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|version| root.join(version.to_string()).join("bin")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_versions_are_read_from_what_servers_say() {
        assert_eq!(major("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major("postgres (PostgreSQL)"), None);
    }

    #[test]
    fn the_newest_version_comes_first_and_other_directories_do_not_count() {
        let root = tempfile::tempdir().unwrap();
        for name in ["9", "15", "13", "common"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        let found = debian_directories(root.path());
        assert_eq!(found, ["15", "13", "9"].map(|name| root.path().join(name).join("bin")));
    }
}
