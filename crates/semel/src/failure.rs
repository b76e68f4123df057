//! Why a command could not do its work. Every message says what was being done, and carries the advice of its source.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use semel_core::refusal::Refusal;
use semel_core::violation::Violations;
use semel_server::config::ConfigError;
use semel_store::StoreError;

use crate::remote::Trouble;

/// What a command ends with when it could not do its work, unless a server told it more.
const NOT_DONE: u8 = 2;

/// The command could not be carried out. Finding problems is not a failure: it is a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A store said no.
    #[error("{}", tell(&dir.display(), source))]
    Store {
        /// Its directory.
        dir: PathBuf,
        /// What it said.
        source: StoreError,
    },
    /// A store in a database said no.
    #[error("{}", tell(name, source))]
    Database {
        /// Where it is, without its password.
        name: String,
        /// What it said.
        source: StoreError,
    },
    /// A file, a pipe or a process failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was being done, as it follows "cannot".
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The store refused a request of ours that it should have taken.
    #[error("the store refused what it should have taken: {0}")]
    Refused(#[from] Refusal),
    /// We made a request that the domain does not allow.
    #[error("{0}")]
    Invalid(#[from] Violations),
    /// Something that must hold did not: a promise of the store, or what a child process was to say.
    #[error("{0}")]
    Broken(String),
    /// The configuration does not do.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The outbox of an application could not be read or changed.
    #[error("{0}")]
    Outbox(#[from] semel_outbox::relay::Error),
    /// A server was not reached, or did not do it.
    #[error("{0}")]
    Server(#[from] Trouble),
    /// Something that was asked for on the command line cannot be done.
    #[error("{0}")]
    Usage(String),
}

impl Failure {
    /// For `map_err`: a store's error, with the directory it is about.
    pub(crate) fn store(dir: &Path) -> impl Fn(StoreError) -> Self {
        move |source| Self::Store { dir: dir.to_owned(), source }
    }

    /// For `map_err`: the same of a store in a database.
    pub(crate) fn database(name: impl Into<String>) -> impl FnOnce(StoreError) -> Self {
        let name = name.into();
        move |source| Self::Database { name, source }
    }

    /// For `map_err`: a system's error, with what was being done.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Server(trouble) => trouble.exit_code,
            _ => NOT_DONE,
        }
    }

    /// Whether the reader of our output went away (`| head`): nothing is wrong, there is just nobody left to tell.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// A refusal to open names the place itself; anything else does not.
fn tell(place: &dyn Display, source: &StoreError) -> String {
    match source {
        StoreError::Open(refusal) => refusal.clone(),
        other => format!("{place}: {other}"),
    }
}
