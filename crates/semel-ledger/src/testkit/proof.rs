//! What was promised, and whether it was kept.

use std::fmt;

use super::is_applied;
use crate::Key;
use crate::handler::{Disposition, Receipt};

/// What a handler promises about its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// It happens once: transactional, intent, steps.
    Once,
    /// It may be lost in a crash, and never happens twice: at-most-once.
    AtMostOnce,
    /// It may happen again after a crash, which is harmless, and is never lost: seen-set.
    AtLeastOnce,
}

/// What became of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// What was done to it.
    pub name: String,
    /// Its key.
    pub key: Key,
    /// How often its effect happened.
    pub effects: u64,
    /// How the promise was broken, if it was.
    pub violation: Option<String>,
}

/// What became of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing is proven before `assert`"]
pub struct Proof {
    /// In the order in which they were made.
    pub trials: Vec<Trial>,
}

impl Proof {
    /// The trials in which the promise was broken.
    pub fn violations(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.violation.is_some())
    }

    /// # Panics
    /// If the promise was broken, with all trials.
    pub fn assert(&self) {
        assert!(self.violations().next().is_none(), "the promise was broken:\n{self}");
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Trial { name, key, effects, violation } in &self.trials {
            let kept = violation.as_deref().unwrap_or("as promised");
            writeln!(f, "- {name}: {effects} effects, {kept} ({key})")?;
        }
        Ok(())
    }
}

type Told = Result<Disposition, String>;

impl Promise {
    /// How a trial breaks the promise: by the number of effects, or by what the queue was told about them.
    pub(super) fn judge(self, effects: u64, told: &[Told], again: &Told) -> Option<String> {
        let counted = match self {
            Self::Once => effects == 1,
            Self::AtMostOnce => effects <= 1,
            Self::AtLeastOnce => effects >= 1,
        };
        if !counted {
            return Some(format!("{effects} effects"));
        }
        if let Some(error) = told.iter().chain([again]).find_map(|told| told.as_ref().err()) {
            return Some(error.clone());
        }
        let applied = told.iter().flatten().filter(|told| is_applied(told)).count();
        if applied > 1 {
            return Some(format!("{applied} deliveries say that they applied the effect"));
        }
        self.last(again.as_ref().ok()?)
    }

    /// What the last delivery may be told: that the effect had happened; or, where it may be lost, that nobody knows.
    fn last(self, again: &Disposition) -> Option<String> {
        let kept = match again {
            Disposition::Ack { receipt: Receipt::Replayed, .. } => true,
            Disposition::Ack { receipt: Receipt::None, .. } | Disposition::Fail { .. } => {
                self == Self::AtMostOnce
            }
            _ => false,
        };
        (!kept).then(|| format!("one more delivery of it is told {again:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(receipt: Receipt) -> Told {
        Ok(Disposition::Ack { receipt, result: None })
    }

    #[test]
    fn two_effects_break_the_promise() {
        let told = [ack(Receipt::Applied)];
        assert_eq!(Promise::Once.judge(1, &told, &ack(Receipt::Replayed)), None);
        assert!(Promise::Once.judge(2, &told, &ack(Receipt::Replayed)).is_some());
        assert!(Promise::AtMostOnce.judge(2, &told, &ack(Receipt::Replayed)).is_some());
        assert_eq!(Promise::AtLeastOnce.judge(2, &told, &ack(Receipt::Replayed)), None);
    }

    #[test]
    fn none_breaks_it_too_unless_it_may_be_lost() {
        let lost = || Ok(Disposition::Fail { error: "unknown".to_owned(), retryable: false });
        assert!(Promise::Once.judge(0, &[lost()], &lost()).is_some());
        assert_eq!(Promise::AtMostOnce.judge(0, &[lost()], &lost()), None);
    }

    #[test]
    fn a_queue_that_is_told_wrong_things_counts() {
        let twice = [ack(Receipt::Applied), ack(Receipt::Applied)];
        assert!(Promise::Once.judge(1, &twice, &ack(Receipt::Replayed)).is_some());
        assert!(Promise::Once.judge(1, &[ack(Receipt::Applied)], &ack(Receipt::Applied)).is_some());
    }
}
