//! Jobs that keep coming back: when a queue notices them, and what it does with them.
//!
//! One duplicate is what keys are there for. The same job published a hundred times, or applied again and again, is a
//! fault of the sender or of a worker, and somebody should hear of it.

use serde::{Deserialize, Serialize};

use crate::violation::Violations;

/// Largest limit. Past a million a limit is never reached, and `None` says so more plainly.
pub const DUPLICATES_MAX: u32 = 1_000_000;

/// From when on a job counts as a persistent duplicate, and what happens to it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DuplicateLimit {
    /// How many suppressed publishes, or replayed effects, make a persistent duplicate.
    pub limit: u32,
    /// What happens to it.
    #[serde(default)]
    pub action: DuplicateAction,
}

/// What happens to a persistent duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DuplicateAction {
    /// It is counted and listed.
    #[default]
    Count,
    /// It goes to the dead letters, where a person looks at it.
    Dead,
}

impl DuplicateLimit {
    /// Notes what is wrong with the settings, under `duplicates.`.
    pub fn check(&self, found: &mut Violations) {
        found.require((1..=DUPLICATES_MAX).contains(&self.limit), "duplicates.limit", || {
            format!("must be from 1 to {DUPLICATES_MAX}, got {}; leave duplicates out for none", self.limit)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_themselves_are_allowed_and_one_past_them_is_not() {
        let fields = |limit| {
            let mut found = Violations::default();
            DuplicateLimit { limit, action: DuplicateAction::Count }.check(&mut found);
            found.iter().map(|v| v.field.clone()).collect::<Vec<_>>()
        };
        for good in [1, DUPLICATES_MAX] {
            assert_eq!(fields(good), [""; 0]);
        }
        for bad in [0, DUPLICATES_MAX + 1] {
            assert_eq!(fields(bad), ["duplicates.limit"]);
        }
    }

    #[test]
    fn the_action_is_to_count_unless_it_is_said() {
        let read = |text| serde_json::from_str::<DuplicateLimit>(text);
        let counted = DuplicateLimit { limit: 5, action: DuplicateAction::Count };
        assert_eq!(read(r#"{"limit":5}"#).unwrap(), counted);
        assert_eq!(read(r#"{"limit":5,"action":"dead"}"#).unwrap().action, DuplicateAction::Dead);
        assert!(read(r#"{"limit":5,"acton":"dead"}"#).is_err());
    }
}
