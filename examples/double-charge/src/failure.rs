//! What can keep the demonstration from going on. That a promise is broken is no failure, but a result.

use std::io;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot {doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
    #[error("the shop's database: {0}")]
    Shop(#[from] rusqlite::Error),
    #[error("the provider did not answer: {0}")]
    Call(#[from] hyper_util::client::legacy::Error),
    #[error("the provider's answer broke off: {0}")]
    Answer(#[from] hyper::Error),
    #[error("the provider said {0}")]
    Refused(http::StatusCode),
    #[error("no request: {0}")]
    Request(#[from] http::Error),
    #[error("the server: {0}")]
    Queue(#[from] semel_client::http::Error),
    #[error("the server's store: {0}")]
    Store(#[from] semel_store::StoreError),
    #[error("the ledger: {0}")]
    Ledger(#[from] semel_ledger::StoreError),
    #[error("the ledger cannot be set up: {0}")]
    Build(#[from] semel_ledger::BuildError),
    #[error("this is not the JSON that was expected: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    NotJson(#[from] semel_client::NotJson),
    #[error("{0}")]
    Broken(String),
}

impl Failure {
    /// For `map_err`: what was being done.
    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
