//! What this node has seen of its queues: the ground that advice stands on.
//!
//! Everything comes from the answers of commits, which pass one place anyway ([`crate::news::Heralded`]); it is taken down
//! once per commit, in memory that is fixed for each queue. On a shared store each node sees what goes through itself.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use semel_core::hold::Hold;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::publish::Published;
use semel_core::records::QueueRecord;
use semel_core::time::{Millis, Timestamp};
use semel_store::{QueueStats, Rescued};

use super::commits::{Commits, Pace};
use super::finding::{Code, Finding};
use super::flow::{Count, Flow};
use super::lint::{Asked, Lint, Reuse};
use crate::news::Kind;

/// Queues that are watched: some 30 KiB each when busy. What is said of others comes from the store alone.
const QUEUES: usize = 512;

/// A queue that was not used for so long makes room for another.
const IDLE: Millis = Millis::from_hours(1);

/// What this node has seen.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    queues: HashMap<QueueName, QueueWatch>,
    standings: HashMap<QueueName, Standing>,
    /// When the first look at the queues was.
    began: Option<Timestamp>,
    reuse: Reuse,
    commits: Commits,
    /// Since when each finding is known.
    known: HashMap<(Code, Option<QueueName>, Option<QueueName>), Timestamp>,
}

/// What was seen of one queue.
#[derive(Debug, Default)]
pub(super) struct QueueWatch {
    pub(super) flow: Flow,
    pub(super) lint: Lint,
    /// When a delivery last ended here.
    settled_at: Timestamp,
    used_at: Timestamp,
}

/// What the last looks at a queue showed.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Standing {
    /// When somebody last worked, as far as this node knows.
    pub(super) active_at: Timestamp,
    /// Since when a hold or a breaker stops deliveries.
    pub(super) shut_since: Option<Timestamp>,
    /// How many jobs had ended.
    ended: u64,
}

/// Something that a commit brought about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sighting<'a> {
    /// A publish was answered.
    Published(&'a Asked, &'a Published),
    /// A publish was refused because its key stands for another payload.
    Collided(&'a Asked),
    /// A delivery ended.
    Settled { queue: &'a QueueName, kind: Kind, state: State },
    /// Leases ran out.
    Rescued(&'a [Rescued]),
}

impl Watch {
    /// Takes down what a commit brought about and how long it took. The lock is taken once; whoever reads holds it for the
    /// time of one queue.
    pub(crate) fn note<'a>(
        &self,
        now: Timestamp,
        took: Duration,
        sightings: impl Iterator<Item = Sighting<'a>>,
    ) {
        let mut seen = self.lock();
        seen.commits.note(took, now);
        sightings.for_each(|sighting| seen.take(sighting, now));
    }

    /// Looks at how queues stand, so that what lasts is known to last.
    pub(super) fn observe(&self, queues: &[(QueueRecord, QueueStats)], now: Timestamp) {
        let mut seen = self.lock();
        seen.queues.retain(|_, queue| now.since(queue.used_at) <= IDLE);
        let began = *seen.began.get_or_insert(now);
        let before = std::mem::take(&mut seen.standings);
        for (record, stats) in queues {
            let first = || Standing { active_at: began.max(record.created_at), ..Standing::default() };
            let mut standing = before.get(&record.name).copied().unwrap_or_else(first);
            standing.observe(record, stats, now);
            if let Some(queue) = seen.queues.get(&record.name) {
                standing.active_at = standing.active_at.max(queue.settled_at);
            }
            seen.standings.insert(record.name.clone(), standing);
        }
    }

    /// Asks what was seen of a queue.
    pub(super) fn of<T>(&self, queue: &QueueName, ask: impl FnOnce(&QueueWatch, Standing) -> T) -> T {
        let seen = self.lock();
        let standing = seen.standings.get(queue).copied().unwrap_or_default();
        match seen.queues.get(queue) {
            Some(watched) => ask(watched, standing),
            None => ask(&QueueWatch::default(), standing),
        }
    }

    /// Asks which keys were seen in two queues.
    pub(super) fn reuse<T>(&self, ask: impl FnOnce(&Reuse) -> T) -> T {
        ask(&self.lock().reuse)
    }

    /// How long commits take.
    pub(super) fn commits(&self, now: Timestamp) -> Option<Pace> {
        self.lock().commits.pace(now)
    }

    /// Notes since when each finding is known, and forgets the others of the same kind: those about queues, or those about
    /// the store.
    pub(super) fn date(&self, findings: &mut [Finding], about_queues: bool, now: Timestamp) {
        let mut seen = self.lock();
        let name = |finding: &Finding| (finding.code, finding.queue.clone(), finding.other.clone());
        let found: BTreeSet<_> = findings.iter().map(name).collect();
        seen.known.retain(|name, _| name.1.is_some() != about_queues || found.contains(name));
        for finding in findings {
            finding.since = *seen.known.entry(name(finding)).or_insert(now);
        }
    }

    /// Forgets a queue that is gone.
    pub(crate) fn forget(&self, queue: &QueueName) {
        let mut seen = self.lock();
        seen.queues.remove(queue);
        seen.standings.remove(queue);
        seen.reuse.forget(queue);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("no one panics while holding what was seen")
    }
}

impl Seen {
    fn take(&mut self, sighting: Sighting<'_>, now: Timestamp) {
        let Self { queues, reuse, .. } = self;
        match sighting {
            Sighting::Published(asked, answer) => {
                if let Some(queue) = watched(queues, &asked.queue, now) {
                    let what = if answer.deduplicated { Count::Deduplicated } else { Count::Created };
                    queue.flow.add(what, now);
                    queue.lint.published(asked, answer, reuse, now);
                }
            }
            Sighting::Collided(asked) => {
                if let Some(queue) = watched(queues, &asked.queue, now) {
                    queue.lint.collided(asked, now);
                }
            }
            Sighting::Settled { queue, kind, state } => {
                if let Some(queue) = watched(queues, queue, now) {
                    queue.settled(kind, state, now);
                }
            }
            Sighting::Rescued(jobs) => {
                for job in jobs {
                    if let Some(queue) = watched(queues, &job.queue, now) {
                        queue.settled(Kind::Expired, job.state, now);
                    }
                }
            }
        }
    }
}

/// What is known of a queue; nothing if too many others are watched.
fn watched<'a>(
    queues: &'a mut HashMap<QueueName, QueueWatch>,
    name: &QueueName,
    now: Timestamp,
) -> Option<&'a mut QueueWatch> {
    let has_room = queues.len() < QUEUES;
    let queue = match queues.entry(name.clone()) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) if has_room => free.insert(QueueWatch::default()),
        Entry::Vacant(_) => return None,
    };
    queue.used_at = now;
    Some(queue)
}

impl QueueWatch {
    fn settled(&mut self, kind: Kind, state: State, now: Timestamp) {
        self.settled_at = now;
        let what = match kind {
            Kind::Completed => Some(Count::Done),
            Kind::Retrying => Some(Count::Failed),
            Kind::Expired => Some(Count::Expired),
            _ => None,
        };
        let dead = (state == State::Dead).then_some(Count::Dead);
        what.into_iter().chain(dead).for_each(|what| self.flow.add(what, now));
    }
}

impl Standing {
    fn observe(&mut self, record: &QueueRecord, stats: &QueueStats, now: Timestamp) {
        let ended = stats.completed + stats.dead + stats.cancelled;
        if stats.processing + stats.awaiting_ack > 0 || ended != self.ended {
            self.active_at = now;
        }
        self.ended = ended;
        let breaks = record.config.breaker.is_some() && !record.gate.breaker.is_closed();
        let is_shut = breaks || record.gate.hold != Hold::Open;
        self.shut_since = is_shut.then(|| self.shut_since.unwrap_or(now));
    }
}

#[cfg(test)]
mod tests {
    use semel_core::ids::JobId;
    use semel_core::payload::Payload;
    use semel_core::publish::Draft;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);

    fn publish(watch: &Watch, queue: &str, at: Timestamp) {
        let draft = Draft::new(QueueName::try_from(queue).unwrap(), Payload::from_json("1").unwrap());
        let asked = Asked::of(&draft.check().unwrap());
        let answer = Published {
            id: JobId::from_raw(1).unwrap(),
            state: State::Pending,
            created_at: at,
            deduplicated: false,
            payload_matches: true,
            duplicates: 0,
            key_expires_at: None,
        };
        watch.note(at, Duration::ZERO, std::iter::once(Sighting::Published(&asked, &answer)));
    }

    fn published(watch: &Watch, queue: &str, at: Timestamp) -> u64 {
        watch.of(&QueueName::try_from(queue).unwrap(), |seen, _| seen.flow.last(1, Count::Created, at))
    }

    #[test]
    fn so_many_queues_are_watched_and_an_idle_one_makes_room() {
        let watch = Watch::default();
        (0..=QUEUES).for_each(|n| publish(&watch, &format!("q{n}"), NOW));
        assert_eq!((published(&watch, "q0", NOW), published(&watch, &format!("q{QUEUES}"), NOW)), (1, 0));
        let later = NOW.plus(IDLE);
        publish(&watch, "q1", later);
        let after = later.plus(Millis::from_millis(1));
        watch.observe(&[], after);
        publish(&watch, "new", after);
        assert_eq!((published(&watch, "new", after), published(&watch, "q1", after)), (1, 1));
        watch.forget(&QueueName::try_from("q1").unwrap());
        assert_eq!(published(&watch, "q1", after), 0);
    }
}
