//! What each act shows, and what it must come to.

use clap::ValueEnum;
use serde::Serialize;

use crate::word::Boundary;

/// The orders of every act, with the moment at which the worker of each is killed.
pub(crate) const ORDERS: [(u32, Option<Boundary>); 4] = [
    (9481, None),
    (9482, Some(Boundary::BeforeEffect)),
    (9483, Some(Boundary::AfterEffect)),
    (9484, Some(Boundary::BeforeAck)),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    Naive,
    InsertFirst,
    Transactional,
    Intent,
    AtMostOnce,
}

/// What an act must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rule {
    /// It fails: somebody is charged twice.
    ShowsTwice,
    /// It fails: somebody is never charged.
    ShowsLost,
    /// The promise: each once.
    Once,
    /// The promise: none twice. What its worker was not killed over is there.
    NeverTwice,
}

impl Rule {
    /// Whether these are the effects of [`ORDERS`] that the rule asks for.
    pub(crate) fn met(self, found: &[u32]) -> bool {
        match self {
            Self::ShowsTwice => found.iter().any(|times| *times > 1),
            Self::ShowsLost => found.contains(&0),
            Self::Once => found.iter().all(|times| *times == 1),
            Self::NeverTwice => found.iter().all(|times| *times <= 1) && found.first() == Some(&1),
        }
    }

    pub(crate) fn is_promise(self) -> bool {
        matches!(self, Self::Once | Self::NeverTwice)
    }

    /// What is wanted of each order: of the failing acts, too.
    pub(crate) fn wanted(self) -> &'static str {
        if self == Self::NeverTwice { "at most 1" } else { "1" }
    }

    pub(crate) fn allows(self, times: u32) -> bool {
        times == 1 || (self == Self::NeverTwice && times == 0)
    }
}

impl Act {
    pub(crate) const ALL: [Self; 5] =
        [Self::Naive, Self::InsertFirst, Self::Transactional, Self::Intent, Self::AtMostOnce];

    pub(crate) fn number(self) -> usize {
        Self::ALL.iter().position(|act| *act == self).map_or(0, |place| place + 1)
    }

    /// For the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Naive => "charge, then ack",
            Self::InsertFirst => "insert, commit, charge",
            Self::Transactional => "ledger: transactional",
            Self::Intent => "ledger: intent",
            Self::AtMostOnce => "ledger: at most once (mail)",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Naive => "The naive worker charges, then acknowledges",
            Self::InsertFirst => "The careful worker inserts a row, commits, then charges",
            Self::Transactional => {
                "The ledger in the transaction: charges are rows in the shop's own database"
            }
            Self::Intent => "The ledger as an intent: the provider takes an idempotency key",
            Self::AtMostOnce => {
                "The ledger at most once: a mail server that takes no key and answers no questions"
            }
        }
    }

    /// What to watch for.
    pub(crate) fn story(self) -> &'static [&'static str] {
        match self {
            Self::Naive => &[
                "A worker that dies between the two has charged, and the queue cannot know.",
                "It delivers again, as every queue does.",
            ],
            Self::InsertFirst => &[
                "The row says \"seen\", and a duplicate that finds it does nothing.",
                "A worker that dies between commit and charge leaves the row and no charge.",
            ],
            Self::Transactional => &[
                "Key, charge and result are committed together, or not at all. A worker that dies before",
                "the commit leaves nothing; after it, the next delivery gets the first one's result.",
            ],
            Self::Intent => &[
                "The intent is written down, then the provider is called with a key that is the same on every",
                "attempt. The next delivery repeats that call; the provider answers with the first charge.",
            ],
            Self::AtMostOnce => &[
                "Nobody can have both \"never twice\" and \"never lost\" here. This is \"never twice\": it is written",
                "down, sent, and never tried again. What nobody knows goes to the dead letters, for a person.",
            ],
        }
    }

    pub(crate) fn rule(self) -> Rule {
        match self {
            Self::Naive => Rule::ShowsTwice,
            Self::InsertFirst => Rule::ShowsLost,
            Self::Transactional | Self::Intent => Rule::Once,
            Self::AtMostOnce => Rule::NeverTwice,
        }
    }

    /// What the worker does to the world.
    pub(crate) fn effect(self) -> &'static str {
        if self == Self::AtMostOnce { "mail" } else { "charge" }
    }

    /// Whether the service that it calls repeats its first answer to a key that it has seen.
    pub(crate) fn service_knows_keys(self) -> bool {
        self == Self::Intent
    }

    /// A boundary in the words of this act.
    pub(crate) fn boundary(self, at: Boundary) -> String {
        match at {
            Boundary::BeforeEffect => format!("before the {}", self.effect()),
            Boundary::AfterEffect => format!("after the {}", self.effect()),
            Boundary::BeforeAck => "before the ack".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_that_must_fail_and_does_not_is_found_out() {
        assert!(Rule::ShowsTwice.met(&[1, 1, 2, 2]) && !Rule::ShowsTwice.met(&[1, 1, 1, 1]));
        assert!(Rule::ShowsLost.met(&[1, 0, 1, 1]) && !Rule::ShowsLost.met(&[1, 1, 1, 1]));
    }

    #[test]
    fn a_broken_promise_is_found_out() {
        assert!(Rule::Once.met(&[1, 1, 1, 1]));
        assert!(!Rule::Once.met(&[1, 1, 2, 1]) && !Rule::Once.met(&[1, 0, 1, 1]));
        assert!(Rule::NeverTwice.met(&[1, 0, 1, 1]));
        assert!(!Rule::NeverTwice.met(&[1, 0, 2, 1]));
        assert!(!Rule::NeverTwice.met(&[0, 0, 1, 1]), "nobody was killed over the first");
    }
}
