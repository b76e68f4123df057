//! What can go wrong while a throw-away server is made, and what to do about it.

use std::{path::PathBuf, time::Duration};

/// Why a server, a database or a pooler could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is neither where `pg_config` points, nor on the PATH, nor where Debian keeps it.
    #[error("{0} is not installed here; `make need` installs it")]
    Missing(String),
    /// Servers do not run as root, and there is no other user to run this one as.
    #[error(
        "servers do not run as root and there is no user `{0}`; `make need` installs the package that makes it"
    )]
    NoAccount(&'static str),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program ended with an error.
    #[error("{program} failed: {output}")]
    Failed {
        /// The program that failed.
        program: String,
        /// What it said, or the end of its log.
        output: String,
    },
    /// Something that was waited for did not come.
    #[error("{what} did not happen within {limit:?}: {log}")]
    TooLate {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// The end of the log that may say why.
        log: String,
    },
    /// The caller's preparation of a template failed.
    #[error("template {name} could not be prepared: {reason}")]
    Template {
        /// The template's name.
        name: String,
        /// What the preparation said.
        reason: String,
    },
}

impl Error {
    /// `map_err(Error::io("what was tried"))`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// The same for something about a path.
    pub(crate) fn path(verb: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what: format!("{verb} {}", path.display()), source }
    }
}
