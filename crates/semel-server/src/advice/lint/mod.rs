//! Key lint at run time: what the keys of a queue look like, from the publishes that this node saw.
//!
//! It runs where the answers of a commit are told, once per commit, and its memory is fixed for each queue: see the sizes in
//! each file. It never fails a publish and never waits for anybody.

mod coarse;
mod looks;
mod minted;
mod prints;
mod reuse;
#[cfg(test)]
mod tests;

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::publish::{Publish, Published};
use semel_core::time::{Millis, Timestamp};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) use self::coarse::Collided;
use self::coarse::Collisions;
use self::minted::Minted;
use self::prints::Prints;
pub(super) use self::prints::Repeated;
pub(super) use self::reuse::Reuse;

/// Jobs of a queue that were published again most often, and are remembered for that.
const PERSISTENT: usize = 8;

/// How long a job that was published again is spoken of.
const PERSISTENT_WINDOW: Millis = Millis::from_hours(1);

/// A payload needs this many keys that differ from its first by something minted, or ...
const MANY: u32 = 3;
/// ... this many payloads need one each. Below that it may be somebody who pressed a button twice.
const SEVERAL: usize = 3;

/// What the lint remembers of a publish until it is answered.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The queue.
    pub(crate) queue: QueueName,
    key: Option<Key>,
    /// A digest of what the job is about: payload and group.
    print: u64,
    /// Whether the key says something about its publisher. Ticks of schedules have keys of ours, and an empty payload does
    /// not say whether two publishes mean the same work.
    is_telling: bool,
}

impl Asked {
    /// Takes down what the lint needs. Nothing is copied: keys and names are shared.
    pub(crate) fn of(publish: &Publish) -> Self {
        let draft = publish.draft();
        let is_scheduled = draft.publisher.as_deref().is_some_and(|who| who.starts_with("schedule:"));
        let is_empty = matches!(draft.payload.bytes().as_ref(), b"{}" | b"[]" | b"null" | b"\"\"");
        let print = low_half(publish.fingerprint().0);
        let print =
            draft.group.as_ref().map_or(print, |group| xxh3_64_with_seed(group.as_str().as_bytes(), print));
        Self {
            queue: draft.queue.clone(),
            key: draft.key.clone(),
            print,
            is_telling: !is_scheduled && !is_empty,
        }
    }
}

fn low_half(digest: u128) -> u64 {
    u64::try_from(digest & u128::from(u64::MAX)).expect("the upper half was taken off")
}

/// What is known of the keys of one queue.
#[derive(Debug, Default)]
pub(super) struct Lint {
    prints: Prints,
    collisions: Collisions,
    minted: Minted,
    persistent: Vec<Persistent>,
}

/// A job that was published again.
#[derive(Debug, Clone)]
pub(super) struct Persistent {
    pub(super) id: JobId,
    pub(super) key: Key,
    pub(super) times: u32,
    last_at: Timestamp,
}

impl Lint {
    /// A publish was answered.
    pub(super) fn published(&mut self, asked: &Asked, answer: &Published, reuse: &mut Reuse, now: Timestamp) {
        let Some(key) = &asked.key else { return };
        match (answer.deduplicated, answer.payload_matches) {
            (false, _) => self.created(asked, key, reuse, now),
            (true, true) => self.came_back(answer, key, now),
            (true, false) => self.collided(asked, now),
        }
    }

    fn created(&mut self, asked: &Asked, key: &Key, reuse: &mut Reuse, now: Timestamp) {
        if !asked.is_telling {
            return;
        }
        self.prints.note(asked.print, key, now);
        self.minted.note(key, now);
        reuse.note(&asked.queue, key, xxh3_64(key.as_str().as_bytes()), asked.print, now);
    }

    fn came_back(&mut self, answer: &Published, key: &Key, now: Timestamp) {
        let times = answer.duplicates;
        if let Some(known) = self.persistent.iter_mut().find(|known| known.id == answer.id) {
            (known.times, known.last_at) = (times, now);
            return;
        }
        if self.persistent.len() >= PERSISTENT {
            let stale = |known: &Persistent| (now.since(known.last_at) <= PERSISTENT_WINDOW, known.times);
            let Some(least) = (0..PERSISTENT).min_by_key(|at| stale(&self.persistent[*at])) else { return };
            if stale(&self.persistent[least]) > (true, times) {
                return;
            }
            self.persistent.swap_remove(least);
        }
        self.persistent.push(Persistent { id: answer.id, key: key.clone(), times, last_at: now });
    }

    /// A key came with another payload, whether or not the queue lets that pass.
    pub(super) fn collided(&mut self, asked: &Asked, now: Timestamp) {
        if let Some(key) = &asked.key {
            self.collisions.note(key, asked.print, now);
        }
    }

    /// Payloads that had a fresh random key for each publish, if there are enough to speak of.
    pub(super) fn random_keys(&self, now: Timestamp) -> Vec<&Repeated> {
        enough(self.prints.recent(now), Repeated::random)
    }

    /// Payloads whose keys differ in the time only, if there are enough to speak of.
    pub(super) fn timed_keys(&self, now: Timestamp) -> Vec<&Repeated> {
        enough(self.prints.recent(now), Repeated::timed)
    }

    /// Keys that contain the time of their publish, if nearly all do.
    pub(super) fn minted_keys(&self, now: Timestamp) -> Option<minted::Share<'_>> {
        self.minted.share(now)
    }

    /// Keys that came with other payloads.
    pub(super) fn collisions(&self, now: Timestamp) -> Vec<&Collided> {
        self.collisions.recent(now)
    }

    /// Jobs that were published again at least this often, the most persistent first.
    pub(super) fn persistent(&self, limit: u32, now: Timestamp) -> Vec<&Persistent> {
        let recent = |known: &&Persistent| now.since(known.last_at) <= PERSISTENT_WINDOW;
        let mut found: Vec<_> =
            self.persistent.iter().filter(|known| known.times >= limit).filter(recent).collect();
        found.sort_by_key(|known| std::cmp::Reverse(known.times));
        found
    }
}

/// The payloads that a number speaks against, the worst first; none if that may be chance.
fn enough<'a>(all: impl Iterator<Item = &'a Repeated>, by: fn(&Repeated) -> u32) -> Vec<&'a Repeated> {
    let mut found: Vec<_> = all.filter(|repeated| by(repeated) > 0).collect();
    found.sort_by_key(|repeated| std::cmp::Reverse(by(repeated)));
    let is_enough = found.len() >= SEVERAL || found.first().is_some_and(|worst| by(worst) >= MANY);
    if is_enough { found } else { Vec::new() }
}
