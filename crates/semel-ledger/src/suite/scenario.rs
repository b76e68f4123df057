//! The scenarios as data.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The text of `ledger/scenarios.json`.
pub const SCENARIOS: &str = include_str!("../../../../ledger/scenarios.json");

/// All of `ledger/scenarios.json`.
#[derive(Debug, Deserialize)]
pub struct Scenarios {
    pub(super) scenarios: Vec<Scenario>,
    /// Keys for services downstream, which are the same in every language.
    pub downstream_keys: Vec<DownstreamKey>,
    /// Fingerprints, likewise.
    pub fingerprints: Vec<Fingerprinted>,
}

impl Scenarios {
    /// Reads what was compiled in.
    pub fn all() -> Self {
        serde_json::from_str(SCENARIOS)
            .expect("ledger/scenarios.json is of the form that PROTOCOL.md describes")
    }
}

/// A scope and the key it gives to others.
#[derive(Debug, Deserialize)]
pub struct DownstreamKey {
    /// Of the scope.
    pub consumer: String,
    /// Of the scope.
    pub key: String,
    /// Of the scope; empty for the whole job, and not necessarily one that a user may choose.
    pub step: String,
    /// What must come out.
    pub is: String,
}

/// An input and its fingerprint.
#[derive(Debug, Deserialize)]
pub struct Fingerprinted {
    /// Any JSON.
    pub input: Value,
    /// What must come out.
    pub is: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) steps: Vec<Move>,
}

/// One move of a scenario, and the answer it must get; no answer means that any will do.
#[derive(Debug, Deserialize)]
pub(super) struct Move {
    #[serde(flatten)]
    pub(super) act: Act,
    pub(super) answer: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Act {
    Claim(ClaimAct),
    Renew(HolderAct),
    Complete(HolderAct),
    Release(HolderAct),
    Mark { keys: Vec<String>, ttl_ms: u64 },
    Lookup { keys: Vec<String> },
    Prune { limit: u32 },
    PassMs(u64),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimAct {
    pub(super) consumer: Option<String>,
    pub(super) key: String,
    pub(super) step: Option<String>,
    pub(super) owner: String,
    pub(super) lease_ms: u64,
    pub(super) fence: Option<u64>,
    pub(super) input: Option<Value>,
    pub(super) expired: Option<String>,
    pub(super) window_ms: Option<u64>,
    pub(super) ttl_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HolderAct {
    pub(super) consumer: Option<String>,
    pub(super) key: String,
    pub(super) step: Option<String>,
    pub(super) owner: String,
    pub(super) token: u64,
    pub(super) lease_ms: Option<u64>,
    #[serde(default)]
    pub(super) result: Value,
    pub(super) ttl_ms: Option<u64>,
    pub(super) how: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Consumer, Fingerprint, Key, Scope, Step};

    #[test]
    fn downstream_keys_are_those_of_every_language() {
        for case in Scenarios::all().downstream_keys {
            let step = match case.step.split_once('/') {
                Some((step, own)) => Step::new(step).unwrap().own(own),
                None if case.step.is_empty() => Step::whole(),
                None => Step::new(&case.step).unwrap(),
            };
            let (consumer, key) = (Consumer::new(&case.consumer).unwrap(), Key::new(&case.key).unwrap());
            assert_eq!(Scope { consumer, key, step }.downstream_key(), case.is);
        }
    }

    #[test]
    fn fingerprints_are_those_of_every_language() {
        for case in Scenarios::all().fingerprints {
            let is = serde_json::to_value(Fingerprint::of_value(&case.input)).unwrap();
            assert_eq!(is, serde_json::to_value(case.is).unwrap(), "{}", case.input);
        }
    }
}
