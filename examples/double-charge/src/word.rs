//! What a worker says before it goes on: one line of JSON. It waits for a line in answer, or is killed where it stands.

use serde::{Deserialize, Serialize};

/// Where in its work a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Boundary {
    /// About to charge, or to send the mail.
    BeforeEffect,
    /// It happened, and nothing that comes after it.
    AfterEffect,
    /// All is done but telling the queue.
    BeforeAck,
}

/// One announcement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Word {
    pub(crate) order: u32,
    /// How often the order was delivered, this time included.
    pub(crate) delivery: u32,
    pub(crate) at: Boundary,
    /// Before the ack: what the queue is about to be told.
    pub(crate) says: Option<String>,
}
