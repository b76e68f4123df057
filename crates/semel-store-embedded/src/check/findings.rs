//! What a check found.

use serde::Serialize;

/// Problems that are named one by one; beyond this only the count goes on, because nobody reads more.
const NAMED_MAX: usize = 100;

/// Everything that is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// The first of them, in words.
    pub named: Vec<String>,
    /// How many there are.
    pub total: u64,
}

impl Findings {
    pub(super) fn add(&mut self, what: impl Into<String>) {
        self.total += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(what.into());
        }
    }

    pub(super) fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.add(what());
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Job rows read.
    pub jobs: u64,
    /// Of them, jobs that have not ended.
    pub unfinished: u64,
    /// Keys found in the index.
    pub keys: u64,
    /// Entries of the index whose jobs are gone. They are harmless and go in time.
    pub index_garbage: u64,
    /// What is wrong.
    pub findings: Findings,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.total == 0
    }
}
