//! What is wrong with an input: every offending field at once, so that a caller mends them in one go.

use std::fmt;

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The field, named as the caller knows it (`retry.base`, `metadata.tenant`).
    pub field: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// Everything wrong with an input. Never empty when returned as an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// A list with one violation in it.
    pub fn one(field: impl Into<String>, problem: impl Into<String>) -> Self {
        let mut all = Self::default();
        all.add(field, problem);
        all
    }

    /// Notes one more violation.
    pub fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Violation { field: field.into(), problem: problem.into() });
    }

    /// Notes a violation unless `holds`.
    pub fn require(&mut self, holds: bool, field: &str, problem: impl FnOnce() -> String) {
        if !holds {
            self.add(field, problem());
        }
    }

    /// The violations, in the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.0.iter()
    }

    /// `Ok` when nothing was found, else this list as the error.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, v) in self.0.iter().enumerate() {
            let gap = if i == 0 { "" } else { "; " };
            write!(f, "{gap}{}: {}", v.field, v.problem)?;
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}
