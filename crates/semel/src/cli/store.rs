//! `semel store`.

use clap::Args;

use super::Outcome;
use crate::failure::Failure;

/// Look after a store's directory
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {}

impl StoreArgs {
    /// Nothing yet.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        Ok(Outcome::Good)
    }
}
