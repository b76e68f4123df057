//! Keys that came with another payload: collisions, by key.

use semel_core::key::Key;
use semel_core::time::{Millis, Timestamp};

/// Keys that are remembered: with their payloads' digests some 4 KiB for a queue that has collisions, nothing for others.
const KEYS: usize = 32;

/// Payloads of one key that are told apart. "Four or more" is as good as a number.
const PAYLOADS: usize = 4;

/// How long a collision is spoken of.
pub(super) const WINDOW: Millis = Millis::from_hours(1);

/// The keys of a queue that had collisions lately.
#[derive(Debug, Default)]
pub(super) struct Collisions(Vec<Collided>);

/// A key that came with another payload.
#[derive(Debug, Clone)]
pub(crate) struct Collided {
    pub(crate) key: Key,
    /// Publishes with another payload.
    pub(crate) times: u32,
    pub(crate) last_at: Timestamp,
    /// Digests of the payloads that are not the first one's.
    others: Vec<u64>,
}

impl Collided {
    /// How many different payloads came besides the first, as far as they are told apart.
    pub(crate) fn other_payloads(&self) -> usize {
        self.others.len()
    }
}

impl Collisions {
    /// A key came with another payload, of this digest.
    pub(super) fn note(&mut self, key: &Key, print: u64, now: Timestamp) {
        self.0.retain(|known| now.since(known.last_at) <= WINDOW);
        let at =
            self.0.iter().position(|known| known.key == *key).unwrap_or_else(|| self.make_room(key, now));
        let known = &mut self.0[at];
        known.times = known.times.saturating_add(1);
        known.last_at = now;
        if known.others.len() < PAYLOADS && !known.others.contains(&print) {
            known.others.push(print);
        }
    }

    /// A new entry, in the place of the least telling one if there are too many.
    fn make_room(&mut self, key: &Key, now: Timestamp) -> usize {
        if self.0.len() >= KEYS
            && let Some(least) =
                (0..self.0.len()).min_by_key(|at| (self.0[*at].others.len(), self.0[*at].last_at))
        {
            self.0.swap_remove(least);
        }
        self.0.push(Collided { key: key.clone(), times: 0, last_at: now, others: Vec::new() });
        self.0.len() - 1
    }

    /// Keys with collisions, those with the most payloads first.
    pub(super) fn recent(&self, now: Timestamp) -> Vec<&Collided> {
        let mut recent: Vec<_> = self.0.iter().filter(|known| now.since(known.last_at) <= WINDOW).collect();
        recent.sort_by_key(|known| std::cmp::Reverse((known.others.len(), known.times)));
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);

    #[test]
    fn payloads_are_told_apart_and_memory_is_bounded() {
        let mut all = Collisions::default();
        let coarse = Key::try_from("daily").unwrap();
        for print in [1, 2, 2, 3, 1] {
            all.note(&coarse, print, NOW);
        }
        for n in 0..KEYS * 3 {
            all.note(&Key::try_from(format!("order-{n}")).unwrap(), 9, NOW);
        }
        let recent = all.recent(NOW);
        assert_eq!(recent.len(), KEYS);
        assert_eq!((recent[0].key.as_str(), recent[0].times, recent[0].other_payloads()), ("daily", 5, 3));
        assert!(all.recent(NOW.plus(WINDOW).plus(Millis::from_millis(1))).is_empty());
    }
}
