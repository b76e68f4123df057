//! Where two stores differ, in words. What jobs carry is not told: it may be secret.

use semel_store::working::Stored;
use serde::Serialize;

/// How many differences are named: the first few show what is wrong, and thousands more would not show more.
const NAMED_MAX: usize = 50;

/// Where two stores differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// The first of them.
    pub named: Vec<String>,
    /// How many there are.
    pub total: u64,
}

impl Differences {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Notes one.
    pub(super) fn add(&mut self, what: impl FnOnce() -> String) {
        self.total += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(what());
        }
    }

    /// Notes one if it is not so.
    pub(super) fn require(&mut self, so: bool, what: impl FnOnce() -> String) {
        if !so {
            self.add(what);
        }
    }
}

/// What is not the same of two jobs.
pub(super) fn of_jobs(here: &Stored, there: &Stored) -> Vec<&'static str> {
    let (old, new) = (&here.job.spec, &there.job.spec);
    let (before, after) = (&here.job.progress, &there.job.progress);
    let all = [
        ("queue", here.queue != there.queue || old.queue != new.queue),
        ("payload", old.payload != new.payload || old.fingerprint != new.fingerprint),
        ("key", old.key != new.key),
        ("group", old.group != new.group || old.gated != new.gated),
        ("times", old.created_at != new.created_at || old.run_at != new.run_at),
        ("priority", old.priority != new.priority),
        ("overrides", old.overrides != new.overrides),
        ("metadata", old.metadata != new.metadata),
        ("state", before.state != after.state),
        ("progress", before != after),
        (
            "suppressed publishes",
            here.job.duplicates != there.job.duplicates || here.suppressed != there.suppressed,
        ),
        ("place in its group's line", here.open != there.open),
        ("lease", here.lease != there.lease),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
}
