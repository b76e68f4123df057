//! The settings of the key index, with the reason of each default.

use super::fault::Fault;
use super::hasher::{HasherId, KeyHasher};

/// How the index spends memory and disk. [`Options::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// Entries in memory before they are sealed into a run. 131,072 is 5 MiB of map, and at most that many rows to replay
    /// at open for each map that was not sealed yet.
    pub run_keys: usize,
    /// Bloom filter bits a key. With 16, one new key in a thousand costs a disk read in a run where it is not (measured).
    pub bloom_bits: u32,
    /// How many adjacent runs of like size are merged into one. A lookup touches a cache line a run, so fewer runs are
    /// better; each merge writes its entries once more. With 4 and the sizes here, entries are rewritten twice (36 bytes, to
    /// the 1,500 a publish costs anyway), and ten million keys are 7 runs: 125 ns a key, instead of 76 and 1,200 ns. With 8
    /// they would be rewritten once, and be 13 runs: 170 ns.
    pub merge_fan: usize,
    /// No merge makes a run of more entries: a run is dropped, rewritten and rebuilt as a whole, the last two in memory.
    /// Sixteen full heads, and a little more because a head is overfilled by the batch that fills it.
    pub max_run_keys: u64,
    /// Full maps that may wait for the sealer before the caller has to: memory stays bounded when the disk is slow.
    pub max_frozen: usize,
    /// Which hasher makes the hashes. A run says it, because a lookup in a run of another one would find nothing, and say so
    /// with confidence.
    pub hashed_by: HasherId,
    /// Tests only: stop or fail at a step of the background work.
    #[doc(hidden)]
    pub fault: Option<Fault>,
    /// Tests only: a broken build, which loses one entry in this many while sealing.
    #[doc(hidden)]
    pub lose_one_in: Option<usize>,
}

impl Options {
    /// The defaults, for hashes made by `hasher`.
    pub fn new(hasher: &KeyHasher) -> Self {
        Self {
            run_keys: 131_072,
            bloom_bits: 16,
            merge_fan: 4,
            max_run_keys: 2_200_000,
            max_frozen: 4,
            hashed_by: hasher.id(),
            fault: None,
            lose_one_in: None,
        }
    }
}
