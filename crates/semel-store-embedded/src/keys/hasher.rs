//! The keyed hash of a queue's key.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// Hashes (queue, key) under a secret of the store.
///
/// Keyed, because senders choose the keys: with a known function they could choose ten thousand of one hash and make every
/// publish read ten thousand rows.
#[derive(Clone)]
pub struct KeyHasher {
    secret: [u8; 16],
    mask: u64,
}

/// Tells hashers apart: two of the same id give the same hashes. Run files carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HasherId {
    /// How many bits of the hash are kept.
    pub(super) bits: u64,
    /// A hash that only this secret gives.
    pub(super) tag: u64,
}

impl KeyHasher {
    /// A hasher under the store's secret.
    pub fn new(secret: [u8; 16]) -> Self {
        Self { secret, mask: u64::MAX }
    }

    /// A hasher that keeps only the low `bits` (1 to 64), so that tests meet the collisions which 64 bits never show.
    #[doc(hidden)]
    pub fn with_bits(secret: [u8; 16], bits: u32) -> Self {
        Self { secret, mask: u64::MAX >> (64 - bits.clamp(1, 64)) }
    }

    /// The hash under which the key of this queue is indexed.
    pub fn hash(&self, queue_no: u32, key: &str) -> u64 {
        // The number has a fixed width and comes first, so no two pairs give the same bytes.
        self.half(&[&queue_no.to_le_bytes(), key.as_bytes()]) & self.mask
    }

    /// What tells this hasher from others, without revealing the secret.
    pub fn id(&self) -> HasherId {
        HasherId { bits: u64::from(self.mask.count_ones()), tag: self.half(&[b"semel key index"]) }
    }

    fn half(&self, parts: &[&[u8]]) -> u64 {
        let mut sip = SipHasher13::new_with_key(&self.secret);
        for part in parts {
            sip.write(part);
        }
        sip.finish128().h1
    }
}

impl std::fmt::Debug for KeyHasher {
    /// The secret stays out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyHasher").field("id", &self.id()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_key_and_secret_all_matter() {
        let hasher = KeyHasher::new([7; 16]);
        let hash = hasher.hash(1, "order-1");
        assert_eq!(hash, hasher.hash(1, "order-1"));
        assert_ne!(hash, hasher.hash(2, "order-1"));
        assert_ne!(hash, hasher.hash(1, "order-2"));
        assert_ne!(hash, KeyHasher::new([8; 16]).hash(1, "order-1"));
        assert_ne!(hasher.id(), KeyHasher::new([8; 16]).id());
    }

    #[test]
    fn short_hashes_are_the_low_bits_of_long_ones() {
        let long = KeyHasher::new([7; 16]).hash(1, "order-1");
        assert_eq!(KeyHasher::with_bits([7; 16], 8).hash(1, "order-1"), long & 0xff);
        assert_ne!(KeyHasher::with_bits([7; 16], 8).id(), KeyHasher::new([7; 16]).id());
        assert_eq!(KeyHasher::with_bits([7; 16], 64).hash(1, "order-1"), long);
    }

    #[test]
    fn the_hash_is_fixed_because_runs_outlive_processes() {
        assert_eq!(KeyHasher::new(*b"0123456789abcdef").hash(3, "order-1"), 0x5a83_2fc3_9c14_9ced);
    }

    #[test]
    fn the_secret_is_not_printed() {
        assert!(!format!("{:?}", KeyHasher::new([213; 16])).contains("213"));
    }
}
