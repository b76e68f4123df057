//! The same payload under many fresh keys: what a publisher does that mints a key for every retry.
//!
//! Two stages, so that a healthy queue costs a comparison. The first remembers which payloads were published lately, four bytes
//! each, and nothing else about them. Only a payload that comes back under a fresh key gets an entry in the second, with keys
//! to show. A busy queue is sampled by payload: whichever payload is in the sample, all its publishes are.

use semel_core::key::Key;
use semel_core::time::{Millis, Timestamp};

use super::looks::{Difference, difference};

/// Payloads that the first stage remembers: 16 KiB for a queue, made with its first key.
const SLOTS: usize = 4096;

/// Payloads that came back and are followed: with two keys each, some 10 KiB for a queue.
const FOLLOWED: usize = 64;

/// What counts as a short time: a publisher that retries has usually given up by then.
pub(super) const WINDOW: Millis = Millis::from_secs(600);

/// Keys of one payload that are looked at closely in one window. More would prove nothing that these do not.
const EXAMINED: u32 = 64;

/// The first stage and the second.
#[derive(Debug, Default)]
pub(super) struct Prints {
    /// A part of the digest of the payload that was last seen in each slot; 0 for none.
    tags: Vec<u32>,
    /// Only digests that end in so many zeros are in the sample.
    level: u32,
    /// The minute whose new payloads are being counted, and how many there were.
    minute: u64,
    fresh: usize,
    followed: Vec<Repeated>,
    /// One bit for each payload that is followed: most others are told from them by a look at it.
    bits: u64,
}

/// A payload that came back under a fresh key.
#[derive(Debug, Clone)]
pub(crate) struct Repeated {
    print: u64,
    first_at: Timestamp,
    last_at: Timestamp,
    /// Keys it had since `first_at`, and how many of those differ from the first by something minted.
    keys: u32,
    random: u32,
    timed: u32,
    first: Key,
    last: Key,
}

impl Repeated {
    /// How many fresh keys the payload had, the one the first stage saw included.
    pub(crate) fn keys(&self) -> u32 {
        self.keys.saturating_add(1)
    }

    /// How many of them differ in a random part.
    pub(crate) fn random(&self) -> u32 {
        self.random
    }

    /// How many of them differ in a time only.
    pub(crate) fn timed(&self) -> u32 {
        self.timed
    }

    /// Two of the keys.
    pub(crate) fn samples(&self) -> [&Key; 2] {
        [&self.first, &self.last]
    }

    /// From when to when they came.
    pub(crate) fn span(&self) -> Millis {
        self.last_at.since(self.first_at)
    }

    fn begin(print: u64, key: &Key, now: Timestamp) -> Self {
        let (first, last) = (key.clone(), key.clone());
        Self { print, first_at: now, last_at: now, keys: 1, random: 0, timed: 0, first, last }
    }

    fn again(&mut self, key: &Key, now: Timestamp) {
        if now.since(self.first_at) > WINDOW {
            *self = Self::begin(self.print, key, now);
            return;
        }
        // The same key creates a second job only after somebody released it, or its window is over.
        if *key == self.first || *key == self.last {
            return;
        }
        if self.keys < EXAMINED {
            match difference(self.first.as_str(), key.as_str(), now) {
                Difference::Random => self.random += 1,
                Difference::Time => self.timed += 1,
                Difference::Other => {}
            }
        }
        self.keys = self.keys.saturating_add(1);
        self.last = key.clone();
        self.last_at = now;
    }
}

impl Prints {
    /// A job was created from a payload with this digest, under a key that nobody held.
    pub(super) fn note(&mut self, print: u64, key: &Key, now: Timestamp) {
        self.keep_pace(now);
        if print.trailing_zeros() < self.level {
            return;
        }
        if self.tags.is_empty() {
            self.tags = vec![0; SLOTS];
        }
        if self.bits & bit(print) != 0
            && let Some(known) = self.followed.iter_mut().find(|known| known.print == print)
        {
            return known.again(key, now);
        }
        let (slot, tag) = place(print);
        if self.tags[slot] == tag {
            return self.follow(Repeated::begin(print, key, now));
        }
        self.tags[slot] = tag;
        self.fresh += 1;
        if self.fresh > SLOTS {
            // A slot would be overwritten within the minute, before a retry comes: look at half as many payloads.
            self.level = (self.level + 1).min(20);
            self.fresh = 0;
        }
    }

    fn keep_pace(&mut self, now: Timestamp) {
        let minute = now.millis() / 60_000;
        if minute == self.minute {
            return;
        }
        if self.fresh < SLOTS / 8 {
            self.level = self.level.saturating_sub(1);
        }
        (self.minute, self.fresh) = (minute, 0);
    }

    /// Follows a payload that came back, in the place of the one that has been quiet for longest if there are too many.
    fn follow(&mut self, begun: Repeated) {
        if self.followed.len() < FOLLOWED {
            self.followed.push(begun);
        } else if let Some(oldest) = self.followed.iter_mut().min_by_key(|known| known.last_at) {
            *oldest = begun;
        }
        self.bits = self.followed.iter().fold(0, |bits, known| bits | bit(known.print));
    }

    /// The payloads that came back lately.
    pub(super) fn recent(&self, now: Timestamp) -> impl Iterator<Item = &Repeated> {
        self.followed.iter().filter(move |known| now.since(known.last_at) <= WINDOW)
    }
}

/// The bit of a digest.
fn bit(print: u64) -> u64 {
    1 << (print >> 58)
}

/// Where a digest belongs, and what stands for it there. The lowest bits decide about the sample, so they are not used.
fn place(print: u64) -> (usize, u32) {
    let slot = usize::try_from((print >> 20) % SLOTS as u64).expect("it is less than the number of slots");
    let tag = u32::try_from(print >> 32).expect("half of the bits are left");
    (slot, tag.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);

    fn key(text: &str) -> Key {
        Key::try_from(text).unwrap()
    }

    /// Any number, but not one that is close to the one before.
    fn scatter(n: u64) -> u64 {
        (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (n << 17)
    }

    #[test]
    fn a_payload_under_fresh_random_keys_is_followed() {
        let mut prints = Prints::default();
        for n in 0..6_u64 {
            prints.note(
                42 << 33,
                &key(&format!("order-17-{:016x}", scatter(n))),
                NOW.plus(Millis::from_secs(n)),
            );
        }
        let found: Vec<_> = prints.recent(NOW).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].keys(), found[0].random(), found[0].timed()), (6, 4, 0));
        assert_eq!(found[0].span(), Millis::from_secs(4), "from the second on");
        assert_eq!(prints.recent(NOW.plus(WINDOW).plus(WINDOW)).count(), 0);
    }

    #[test]
    fn however_many_payloads_there_are_the_memory_is_the_same() {
        let mut prints = Prints::default();
        for n in 0..200_000 {
            prints.note(scatter(n), &key(&format!("order-{n}")), NOW);
        }
        assert_eq!((prints.tags.len(), prints.followed.len()), (SLOTS, 0));
        assert!(prints.level > 3, "a busy queue is sampled: {}", prints.level);
        for minute in 1..=20 {
            prints.note(scatter(minute), &key("k"), NOW.plus(Millis::from_secs(60 * minute)));
        }
        assert_eq!(prints.level, 0, "and a quiet one is looked at closely again");
        for n in 0..FOLLOWED as u64 * 3 {
            prints.note(scatter(n), &key("a"), NOW);
            prints.note(scatter(n), &key("b"), NOW);
        }
        assert_eq!(prints.followed.len(), FOLLOWED);
    }
}
