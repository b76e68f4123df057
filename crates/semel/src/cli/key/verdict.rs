//! Whether what a key stands for happened once.

use super::Key;
use crate::paint::Tone;
use crate::remote::wire::moment;
use crate::text::printable;

/// What the receipts of a key's deliveries say together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// How often a worker reported that it applied the effect.
    applied: usize,
    /// How often one reported that it was there already.
    replayed: usize,
    /// How often one reported that there is no effect.
    none: usize,
    /// Where the job stands.
    status: String,
}

impl Verdict {
    pub(super) fn of(key: &Key) -> Self {
        let receipts = key.timeline.iter().filter_map(|moment| moment.effect.as_ref());
        let count = |outcome: &str| receipts.clone().filter(|receipt| receipt.outcome == outcome).count();
        let [applied, replayed, none] = ["applied", "replayed", "none"].map(count);
        Self { applied, replayed, none, status: printable(&key.job.status) }
    }

    /// Whether it happened more than once.
    pub(super) fn is_twice(&self) -> bool {
        self.applied > 1
    }

    /// The answer, in words.
    pub(super) fn words(&self) -> String {
        let status = &self.status;
        match self {
            Self { applied: 1, replayed: 0, .. } => "the effect was applied once".into(),
            Self { applied: 1, replayed: 1, .. } => {
                "the effect was applied once; a later delivery changed nothing".into()
            }
            Self { applied: 1, replayed, .. } => {
                format!("the effect was applied once; {replayed} later deliveries changed nothing")
            }
            Self { applied: 0, replayed: 1.., .. } => {
                "the effect happened once: a delivery found it done and did not repeat it".into()
            }
            Self { applied: 0, none: 1.., .. } => "a worker reported that there was no effect".into(),
            Self { applied: 0, .. } if status == "completed" => {
                "completed once; the worker gave no receipt, so only its ledger knows about the effect".into()
            }
            Self { applied: 0, .. } => format!("no effect was reported; the job is {status}"),
            Self { applied, .. } => {
                format!("THE EFFECT WAS APPLIED {applied} TIMES: the handler needs a ledger")
            }
        }
    }

    pub(super) fn tone(&self) -> Tone {
        match (self.applied, self.replayed) {
            (0, 0) => Tone::Plain,
            (0 | 1, _) => Tone::Good,
            _ => Tone::Bad,
        }
    }
}

/// How often it was published.
pub(super) fn publishes(key: &Key) -> String {
    let other = key.timeline.iter().filter(|moment| moment.payload_matches == Some(false)).count();
    let collisions =
        if other == 0 { String::new() } else { format!(", {other} of them with another payload") };
    match key.duplicates {
        0 => "published once".into(),
        many => format!("published {} times, {many} of them suppressed{collisions}", u64::from(many) + 1),
    }
}

/// How long it holds.
pub(super) fn hold(key: &Key) -> String {
    let job = printable(&key.job.id);
    match (key.holds, &key.expires_at) {
        (true, Some(at)) => format!("the key holds until {}; its job is {job}", moment(at)),
        (true, None) => format!("the key holds as long as {job} is unfinished, and its window after that"),
        (false, _) => format!("the key holds no more: a publish makes a new job; the last was {job}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_answers_whether_it_happened_twice() {
        for (applied, replayed, none, status, expected, twice) in [
            (1, 0, 0, "completed", "applied once", false),
            (1, 1, 0, "completed", "a later delivery changed nothing", false),
            (1, 2, 0, "completed", "2 later deliveries changed nothing", false),
            (2, 0, 0, "completed", "APPLIED 2 TIMES", true),
            (0, 1, 0, "completed", "found it done", false),
            (0, 0, 1, "completed", "no effect", false),
            (0, 0, 0, "completed", "no receipt", false),
            (0, 0, 0, "dead", "the job is dead", false),
        ] {
            let verdict = Verdict { applied, replayed, none, status: status.into() };
            assert!(verdict.words().contains(expected), "{}", verdict.words());
            assert_eq!(verdict.is_twice(), twice, "{}", verdict.words());
        }
    }
}
