//! What is kept of a finished job, and until when.
//!
//! A job and its key have lives of their own. When the job's retention ends first, the job is *stripped*: payload,
//! metadata, history and result go, what the key needs (id, state, fingerprint) stays. When both are over it is dropped.

use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::lifecycle::State;
use crate::refusal::Refusal;
use crate::time::{Millis, Timestamp};
use crate::violation::Violations;

/// How long completed jobs keep their payload and result by default: long enough to look at yesterday. Their keys
/// hold for the whole window all the same.
pub const DEFAULT_COMPLETED: Millis = Millis::from_hours(24);

/// How long dead letters are kept by default: from Friday 17:00, when the deploy went wrong, to Monday 9:00, when somebody
/// replays them. With two whole lives of the default retries it stays below 72 h, the default key window and ledger TTL,
/// so the defaults pass the window proof.
pub const DEFAULT_DEAD: Millis = Millis::from_hours(64);

/// Longest retention. What must be kept longer belongs in the archive.
pub const RETENTION_MAX: Millis = Millis::from_days(365);

/// How long finished jobs are kept, counted from their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Retention {
    /// Completed and cancelled jobs.
    pub completed: Millis,
    /// Dead letters. They can be replayed until then.
    pub dead: Millis,
    /// Whether dead letters wait for an archive: then nothing but a purge takes them away, however old they are.
    pub archive: bool,
}

impl Default for Retention {
    fn default() -> Self {
        Self { completed: DEFAULT_COMPLETED, dead: DEFAULT_DEAD, archive: false }
    }
}

impl Retention {
    /// Notes everything that is wrong with the settings, under `retention.`.
    pub fn check(&self, found: &mut Violations) {
        for (field, span) in [("retention.completed", self.completed), ("retention.dead", self.dead)] {
            found.require(span <= RETENTION_MAX, field, || {
                format!("must be at most {RETENTION_MAX}, got {span}; archive what must be kept longer")
            });
        }
    }
}

/// What to do with a finished job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Keep {
        /// Nothing can change before this time, so a sweep need not look again earlier.
        until: Timestamp,
    },
    /// Keep only what the key needs.
    Strip {
        /// When the key is over, and the rest can go.
        next: Timestamp,
    },
    /// Remove the job and its key.
    Drop,
}

/// The end of a wait that no time ends, only a request or a change of settings.
const NEVER: Timestamp = Timestamp::from_millis(u64::MAX);

/// Decides about a job that ended at `finished_at`. `key_until` is the end of its key's window, or `None` when it has no
/// key or the key was released.
pub fn fate(
    finished_at: Timestamp,
    state_is_dead: bool,
    retention: &Retention,
    key_until: Option<Timestamp>,
    already_stripped: bool,
    now: Timestamp,
) -> Fate {
    if state_is_dead && retention.archive && !already_stripped {
        return Fate::Keep { until: NEVER };
    }
    let job_until = finished_at.plus(if state_is_dead { retention.dead } else { retention.completed });
    let end = key_until.map_or(job_until, |key| key.max(job_until));
    if end <= now {
        Fate::Drop
    } else if already_stripped {
        Fate::Keep { until: end }
    } else if job_until <= now {
        Fate::Strip { next: end }
    } else {
        Fate::Keep { until: job_until }
    }
}

/// Decides what a purge leaves of a job: only a dead letter that is still whole can be purged. Its key goes on holding
/// until `key_until`, so until then the job is stripped instead of dropped.
pub fn purge(job: &Job, key_until: Option<Timestamp>, now: Timestamp) -> Result<Fate, Refusal> {
    let (id, state) = (job.id, job.progress.state);
    if state != State::Dead {
        return Err(Refusal::WrongState { id, state, action: "purged" });
    }
    if job.spec.payload.is_none() {
        return Err(Refusal::PayloadGone(id));
    }
    Ok(key_until.filter(|until| *until > now).map_or(Fate::Drop, |next| Fate::Strip { next }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::publish::{self, Draft};
    use crate::queue::Rules;
    use crate::{JobId, Payload, QueueConfig, QueueName};

    const RETENTION: Retention =
        Retention { completed: Millis::from_millis(100), dead: Millis::from_millis(200), archive: false };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// The fate of a job that ended at 1000.
    fn completed(key_until: Option<u64>, stripped: bool, now: u64) -> Fate {
        fate(at(1000), false, &RETENTION, key_until.map(at), stripped, at(now))
    }

    #[test]
    fn a_job_without_a_key_is_dropped_at_the_end_of_its_retention() {
        assert_eq!(completed(None, false, 1099), Fate::Keep { until: at(1100) });
        assert_eq!(completed(None, false, 1100), Fate::Drop);
    }

    #[test]
    fn a_dead_letter_has_a_retention_of_its_own() {
        let dead = |now| fate(at(1000), true, &RETENTION, None, false, at(now));
        assert_eq!(dead(1199), Fate::Keep { until: at(1200) });
        assert_eq!(dead(1200), Fate::Drop);
    }

    #[test]
    fn a_key_that_outlives_its_job_keeps_a_stripped_one() {
        assert_eq!(completed(Some(1500), false, 1099), Fate::Keep { until: at(1100) });
        assert_eq!(completed(Some(1500), false, 1100), Fate::Strip { next: at(1500) });
        assert_eq!(completed(Some(1500), true, 1100), Fate::Keep { until: at(1500) });
        assert_eq!(completed(Some(1500), true, 1500), Fate::Drop);
    }

    #[test]
    fn a_job_that_outlives_its_key_is_dropped_whole() {
        assert_eq!(completed(Some(1050), false, 1099), Fate::Keep { until: at(1100) });
        assert_eq!(completed(Some(1050), false, 1100), Fate::Drop);
    }

    #[test]
    fn a_retention_that_was_lengthened_does_not_strip_twice() {
        assert_eq!(completed(Some(1050), true, 1060), Fate::Keep { until: at(1100) });
    }

    #[test]
    fn an_archive_keeps_whole_dead_letters_and_nothing_else() {
        let archive = Retention { archive: true, ..RETENTION };
        let at_the_end = |dead, stripped| fate(at(1000), dead, &archive, Some(at(1500)), stripped, at(9000));
        assert_eq!(at_the_end(true, false), Fate::Keep { until: NEVER });
        assert_eq!(at_the_end(true, true), Fate::Drop);
        assert_eq!(at_the_end(false, false), Fate::Drop);
    }

    #[test]
    fn a_purge_leaves_what_the_key_needs() {
        let dead = job(State::Dead);
        assert_eq!(purge(&dead, Some(at(1500)), at(1499)), Ok(Fate::Strip { next: at(1500) }));
        assert_eq!(purge(&dead, Some(at(1500)), at(1500)), Ok(Fate::Drop));
        assert_eq!(purge(&dead, None, at(1)), Ok(Fate::Drop));
        let stripped = Job { spec: Arc::new(dead.spec.stripped()), ..dead };
        assert_eq!(purge(&stripped, None, at(1)), Err(Refusal::PayloadGone(stripped.id)));
        for state in State::ALL.into_iter().filter(|state| *state != State::Dead) {
            let refused = purge(&job(state), None, at(1)).unwrap_err();
            assert_eq!(refused, Refusal::WrongState { id: stripped.id, state, action: "purged" });
        }
    }

    fn job(state: State) -> Job {
        let rules = Rules::new(QueueConfig::default()).unwrap();
        let draft = Draft::new(QueueName::try_from("q").unwrap(), Payload::from_json("1").unwrap());
        let spec = draft.check().unwrap().into_spec(&rules, at(1));
        let mut job = publish::create(JobId::from_raw(7).unwrap(), spec);
        job.progress.state = state;
        job
    }

    #[test]
    fn a_retention_past_a_year_is_refused() {
        let mut found = Violations::default();
        let day_more = RETENTION_MAX.plus(Millis::from_days(1));
        Retention { completed: day_more, dead: day_more, archive: true }.check(&mut found);
        let fields = found.iter().map(|v| v.field.as_str()).collect::<Vec<_>>();
        assert_eq!(fields, ["retention.completed", "retention.dead"]);
    }

    proptest! {
        #[test]
        fn a_sweep_that_waits_as_told_misses_nothing(
            dead: bool, key in prop::option::of(0_u64..3000), stripped: bool, now in 900_u64..2000, early in 0_u64..3000,
        ) {
            let decide = |stripped, now| fate(at(1000), dead, &RETENTION, key.map(at), stripped, at(now));
            match decide(stripped, now) {
                Fate::Keep { until } => {
                    prop_assert!(until > at(now));
                    let between = (now + early).min(until.millis() - 1);
                    prop_assert_eq!(decide(stripped, between), Fate::Keep { until });
                    let is_kept = matches!(decide(stripped, until.millis()), Fate::Keep { .. });
                    prop_assert!(!is_kept);
                }
                Fate::Strip { next } => {
                    prop_assert_eq!(decide(true, now), Fate::Keep { until: next });
                    prop_assert_eq!(decide(true, next.millis()), Fate::Drop);
                }
                Fate::Drop => prop_assert_eq!(decide(true, now), Fate::Drop),
            }
        }
    }
}
