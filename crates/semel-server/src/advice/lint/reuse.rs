//! The same key in two queues. Keys are scoped by queue, so one does not stop the other.

use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

/// Keys that are remembered over all queues: some 50 KiB, made with the first key.
const SLOTS: usize = 1024;

/// Pairs of queues that are remembered, with three keys each.
const PAIRS: usize = 32;

const SAMPLES: usize = 3;

/// How long a key and a pair are remembered.
const WINDOW: Millis = Millis::from_hours(1);

/// Which keys were seen where.
#[derive(Debug, Default)]
pub(crate) struct Reuse {
    seen: Vec<Option<Seen>>,
    pairs: Vec<Pair>,
}

#[derive(Debug, Clone)]
struct Seen {
    hash: u64,
    queue: QueueName,
    print: u64,
    at: Timestamp,
}

/// Two queues in which the same keys were used.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    /// The queues, by name.
    pub(crate) queues: [QueueName; 2],
    /// How many keys.
    pub(crate) keys: u32,
    /// How many of them came with the same payload.
    pub(crate) same_payload: u32,
    /// Some of them.
    pub(crate) samples: Vec<Key>,
    last_at: Timestamp,
}

impl Reuse {
    /// A job was created in a queue under a key with this hash.
    pub(crate) fn note(&mut self, queue: &QueueName, key: &Key, hash: u64, print: u64, now: Timestamp) {
        if self.seen.is_empty() {
            self.seen = vec![None; SLOTS];
        }
        let slot = usize::try_from(hash % SLOTS as u64).expect("it is less than the number of slots");
        let known = self.seen[slot].as_ref().filter(|seen| now.since(seen.at) <= WINDOW);
        let before = known.filter(|seen| seen.hash == hash && seen.queue != *queue).cloned();
        // A slot that is in use is overwritten now and then only: in a flood of keys some must stay long enough to be met
        // again in another queue, and which ones is left to their hashes.
        let is_free = known.is_none_or(|seen| seen.hash == hash || hash > seen.hash);
        if is_free {
            self.seen[slot] = Some(Seen { hash, queue: queue.clone(), print, at: now });
        }
        if let Some(before) = before {
            self.met(&before, queue, key, print, now);
        }
    }

    fn met(&mut self, before: &Seen, queue: &QueueName, key: &Key, print: u64, now: Timestamp) {
        let mut queues = [before.queue.clone(), queue.clone()];
        queues.sort();
        self.pairs.retain(|pair| now.since(pair.last_at) <= WINDOW);
        let at = self.pairs.iter().position(|pair| pair.queues == queues).unwrap_or_else(|| {
            self.pairs.truncate(PAIRS - 1);
            self.pairs.push(Pair { queues, keys: 0, same_payload: 0, samples: Vec::new(), last_at: now });
            self.pairs.len() - 1
        });
        let pair = &mut self.pairs[at];
        pair.keys = pair.keys.saturating_add(1);
        pair.same_payload = pair.same_payload.saturating_add(u32::from(before.print == print));
        pair.last_at = now;
        if pair.samples.len() < SAMPLES {
            pair.samples.push(key.clone());
        }
    }

    /// The pairs of queues that share keys lately.
    pub(crate) fn recent(&self, now: Timestamp) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| now.since(pair.last_at) <= WINDOW)
    }

    /// Forgets a queue that is gone.
    pub(crate) fn forget(&mut self, queue: &QueueName) {
        self.pairs.retain(|pair| !pair.queues.contains(queue));
        self.seen.iter_mut().filter(|seen| seen.as_ref().is_some_and(|seen| seen.queue == *queue)).for_each(
            |seen| {
                *seen = None;
            },
        );
    }
}
