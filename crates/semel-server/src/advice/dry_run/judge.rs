//! What keys would have done to a row of publishes.

use std::collections::HashMap;

use semel_core::collision;
use semel_core::ids::JobId;
use semel_core::key::{self, Key};
use semel_core::lifecycle::State;
use semel_core::queue::{OnDead, QueueConfig};
use semel_core::time::{Millis, Timestamp};

use super::Line;
use super::expression::Evaluated;

/// Keys that are shown, those that would have suppressed the most.
const SHOWN: usize = 10;

/// Jobs that are shown of one key.
const SAMPLES: usize = 5;

/// What the keys would have done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Jobs that would have been answered with an earlier one.
    pub suppressed: usize,
    /// Of these, jobs whose payload is another than the earlier one's.
    pub collisions: usize,
    /// How many keys would have suppressed anything.
    pub keys: usize,
    /// Some of them, those that would have suppressed the most first.
    pub groups: Vec<Suppressed>,
}

/// What one key would have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppressed {
    /// The key.
    pub key: Key,
    /// Jobs that have it.
    pub jobs: usize,
    /// Jobs that would have been answered with an earlier one.
    pub suppressed: usize,
    /// Of these, jobs whose payload is another than the earlier one's.
    pub collisions: usize,
    /// Some of the jobs, the oldest first.
    pub samples: Vec<Sample>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The job.
    pub id: JobId,
    /// When it was published.
    pub created_at: Timestamp,
    /// The key it was published under.
    pub key: Option<Key>,
    /// The job that it would have been answered with; none if it would have been created.
    pub instead: Option<JobId>,
    /// Whether its payload is that one's; true for a job that would have been created.
    pub payload_matches: bool,
}

/// A key while the row is gone through.
struct Held<'a> {
    holder: &'a Line,
    found: Suppressed,
}

/// Goes through jobs in the order in which they were published.
pub(super) fn judge(lines: &[Line], window: Millis, config: &QueueConfig) -> Verdict {
    let mut held: HashMap<&Key, Held<'_>> = HashMap::new();
    for line in lines {
        let Evaluated::Key(key) = &line.key else { continue };
        let known = held.entry(key).or_insert_with(|| Held { holder: line, found: Suppressed::none(key) });
        known.publish(line, window, config);
    }
    let mut groups: Vec<_> =
        held.into_values().map(|held| held.found).filter(|found| found.suppressed > 0).collect();
    groups.sort_by(|a, b| b.suppressed.cmp(&a.suppressed).then_with(|| a.key.cmp(&b.key)));
    let suppressed = groups.iter().map(|found| found.suppressed).sum();
    let collisions = groups.iter().map(|found| found.collisions).sum();
    let keys = groups.len();
    groups.truncate(SHOWN);
    Verdict { suppressed, collisions, keys, groups }
}

impl<'a> Held<'a> {
    fn publish(&mut self, line: &'a Line, window: Millis, config: &QueueConfig) {
        let is_first = self.holder.id == line.id;
        let is_suppressed = !is_first && holds(self.holder, window, config, line.spec.created_at);
        let payload_matches = !is_suppressed || same_payload(self.holder, line, config);
        let instead = is_suppressed.then_some(self.holder.id);
        self.found.add(Sample {
            id: line.id,
            created_at: line.spec.created_at,
            key: line.spec.key.clone(),
            instead,
            payload_matches,
        });
        if !is_suppressed {
            self.holder = line;
        }
    }
}

/// Whether a job would hold the key at a time. As in earnest, a dead one gives it up where the queue says so.
fn holds(job: &Line, window: Millis, config: &QueueConfig, at: Timestamp) -> bool {
    let was_dead = job.state == State::Dead && job.finished_at.is_some_and(|end| end <= at);
    let gives_up = was_dead && config.on_dead == OnDead::Release;
    !gives_up && key::holds(job.finished_at, window, at)
}

fn same_payload(one: &Line, other: &Line, config: &QueueConfig) -> bool {
    if one.spec.fingerprint == other.spec.fingerprint {
        return true;
    }
    match (&one.spec.payload, &other.spec.payload) {
        (Some(a), Some(b)) => collision::compare(a, b, &config.collision_ignore) == collision::Verdict::Same,
        _ => false,
    }
}

impl Suppressed {
    fn none(key: &Key) -> Self {
        Self { key: key.clone(), jobs: 0, suppressed: 0, collisions: 0, samples: Vec::new() }
    }

    fn add(&mut self, sample: Sample) {
        self.jobs += 1;
        self.suppressed += usize::from(sample.instead.is_some());
        self.collisions += usize::from(!sample.payload_matches);
        if self.samples.len() < SAMPLES {
            self.samples.push(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use semel_core::name::QueueName;
    use semel_core::payload::Payload;
    use semel_core::publish::Draft;
    use semel_core::queue::Rules;

    use super::*;

    /// A job under one of a few keys, with one of two payloads, that ended after a while or not at all.
    fn line(n: u64, key: Option<u8>, payload: bool, at: u64, took: Option<u64>, dead: bool) -> Line {
        let at = Timestamp::from_millis(1_794_744_000_000 + at);
        let payload = Payload::from_json(format!("{{\"of\": {payload}}}")).unwrap();
        let draft = Draft::new(QueueName::try_from("q").unwrap(), payload);
        let spec = draft.check().unwrap().into_spec(&Rules::new(QueueConfig::default()).unwrap(), at);
        let key =
            key.map_or(Evaluated::Nothing, |key| Evaluated::Key(Key::try_from(format!("k{key}")).unwrap()));
        let state = match took {
            None => State::Pending,
            Some(_) if dead => State::Dead,
            Some(_) => State::Completed,
        };
        Line {
            id: JobId::from_raw(n + 1).unwrap(),
            spec: Arc::new(spec),
            state,
            finished_at: took.map(|took| at.plus(Millis::from_millis(took))),
            duplicates: 0,
            key,
        }
    }

    /// The same by looking back from every job, without remembering anything but who was created.
    fn by_looking_back(lines: &[Line], window: u64, releases: bool) -> Vec<Option<JobId>> {
        let mut created: Vec<&Line> = Vec::new();
        lines
            .iter()
            .map(|line| {
                let now = line.spec.created_at.millis();
                let of_key = |other: &&&Line| other.key == line.key && line.key != Evaluated::Nothing;
                let before =
                    created.iter().rev().find(of_key).copied().filter(|other| match other.finished_at {
                        None => true,
                        Some(end) if releases && other.state == State::Dead && end.millis() <= now => false,
                        Some(end) => end.millis() + window > now,
                    });
                if before.is_none() {
                    created.push(line);
                }
                before.map(|other| other.id)
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_finds_what_looking_back_from_every_job_finds(
            jobs in prop::collection::vec(
                (prop::option::weighted(0.9, 0..4_u8), any::<bool>(), 0..200_u64, prop::option::weighted(0.8, 0..300_u64), any::<bool>()),
                0..40,
            ),
            window in 0..500_u64,
            releases in any::<bool>(),
        ) {
            let mut at = 0;
            let lines: Vec<_> = jobs.into_iter().zip(0..).map(|((key, payload, gap, took, dead), n)| {
                at += gap;
                line(n, key, payload, at, took, dead)
            }).collect();
            let on_dead = if releases { OnDead::Release } else { OnDead::Keep };
            let config = QueueConfig { on_dead, ..QueueConfig::default() };
            let found = judge(&lines, Millis::from_millis(window), &config);
            let expected = by_looking_back(&lines, window, releases);
            prop_assert_eq!(found.suppressed, expected.iter().flatten().count());
            let differs = |(line, earlier): &(&Line, &Option<JobId>)| earlier.is_some_and(|earlier| {
                lines.iter().any(|other| other.id == earlier && other.spec.fingerprint != line.spec.fingerprint)
            });
            prop_assert_eq!(found.collisions, lines.iter().zip(&expected).filter(differs).count());
            for sample in found.groups.iter().flat_map(|group| &group.samples) {
                let at = lines.iter().position(|line| line.id == sample.id).unwrap();
                prop_assert_eq!(sample.instead, expected[at]);
            }
        }
    }

    #[test]
    fn the_worst_keys_are_shown_with_a_few_jobs() {
        let lines: Vec<_> = (0..120_u64)
            .map(|n| line(n, Some(u8::try_from(n % 15).unwrap()), n % 30 == 0, n, None, false))
            .collect();
        let found = judge(&lines, Millis::ZERO, &QueueConfig::default());
        assert_eq!((found.suppressed, found.keys, found.groups.len()), (105, 15, SHOWN));
        assert_eq!((found.groups[0].jobs, found.groups[0].samples.len()), (8, SAMPLES));
        assert_eq!(found.groups[0].samples[0].instead, None, "the first would have been created");
        assert_eq!(found.collisions, 4, "of the key that came with two payloads");
        assert_eq!(judge(&[], Millis::ZERO, &QueueConfig::default()), Verdict::default());
    }
}
