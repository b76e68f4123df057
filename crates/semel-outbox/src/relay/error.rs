//! What can go wrong between a relay and its database.

/// Why the outbox could not be read or changed. Nothing is lost by it: a row goes only when the server has its job.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one of a database that has an outbox.
    #[error("{0}")]
    Address(String),
    /// The database failed, or could not be reached.
    #[error("cannot {what}: {source}{}", hint(.source.as_ref()))]
    Database {
        /// What was being done.
        what: &'static str,
        /// What the driver said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A task of our own ended early.
    #[error("a task of the relay failed: {0}")]
    Task(String),
}

impl Error {
    /// For `map_err`: the driver's error, with what was being done.
    pub(super) fn database<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        what: &'static str,
    ) -> impl Fn(E) -> Self {
        move |source| Self::Database { what, source: source.into() }
    }
}

/// What to do about the mistake that everybody makes once.
fn hint(source: &(dyn std::error::Error + Send + Sync)) -> &'static str {
    let words = source.to_string();
    let missing =
        ["does not exist", "doesn't exist", "no such table"].iter().any(|said| words.contains(said));
    if missing && words.contains("semel_outbox") {
        "; make the table with `semel relay schema --apply`, or with your migrations"
    } else {
        ""
    }
}
