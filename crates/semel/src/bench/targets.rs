//! What the store must reach and what it aims for. Changing a number here is changing a promise.

use serde::Serialize;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    /// The more the better.
    Higher,
    /// The less the better.
    Lower,
}

/// One measure and its bars.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Target {
    /// Its name for machines.
    pub id: &'static str,
    /// Its name for people, at most 50 characters.
    pub title: &'static str,
    /// What the figure counts.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// What it must reach.
    pub must: f64,
    /// What it aims for.
    pub aim: f64,
    /// How it is measured.
    pub how: &'static str,
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// One rate divided by another.
    Ratio,
    /// Bytes.
    Bytes,
    /// Memory, in bytes.
    Memory,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// A value of this unit for a table.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.2}"),
            Self::Bytes => format!("{} B", crate::text::rate(value)),
            Self::Memory => format!("{} MiB", crate::text::rate(value / MIB)),
            Self::Milliseconds if value < 10.0 => format!("{value:.2} ms"),
            Self::Milliseconds => format!("{value:.0} ms"),
            Self::Seconds => format!("{value:.2} s"),
        }
    }
}

const MIB: f64 = 1024.0 * 1024.0;

/// Publishing into an empty store.
pub(crate) const PUBLISH: Target = Target {
    id: "publish_empty_vs_raw",
    title: "publishes/s, empty store, against the raw limit",
    unit: Unit::Ratio,
    better: Better::Higher,
    must: 0.20,
    aim: 0.35,
    how: "time inside apply for batches of 128 against append + fdatasync of the same bytes, in alternating slices",
};

/// Publishing with many keys present.
pub(crate) const PUBLISH_FULL: Target = Target {
    id: "publish_full_vs_empty",
    title: "publishes/s with all keys present, against empty",
    unit: Unit::Ratio,
    better: Better::Higher,
    must: 0.65,
    aim: 0.90,
    how: "slices on the preloaded store alternate with the slices on the empty store and the raw log",
};

/// Whole lives.
pub(crate) const LIVES: Target = Target {
    id: "lives_vs_publishes",
    title: "whole lives/s (publish, lease, settle), vs publishes/s",
    unit: Unit::Ratio,
    better: Better::Higher,
    must: 0.50,
    aim: 0.70,
    how: "each cycle applies 128 publishes and the settles of the cycle before as one batch, then 16 workers, one per \
          queue, lease 8 each at the same time; slices alternate with the publishes it is compared with; both stores start empty",
};

/// Bytes per job.
pub(crate) const BYTES: Target = Target {
    id: "bytes_written_per_job",
    title: "bytes written per published job, all keys present",
    unit: Unit::Bytes,
    better: Better::Lower,
    must: 2000.0,
    aim: 1400.0,
    how: "write_bytes of /proc/self/io over the phase, checkpoints included, divided by the new jobs; the file \
          system's own journal is not counted by the kernel",
};

/// Commit latency, one in a hundred.
pub(crate) const LATENCY_P99: Target = Target {
    id: "commit_p99",
    title: "commit latency p99 at full speed, all keys present",
    unit: Unit::Milliseconds,
    better: Better::Lower,
    must: 10.0,
    aim: 2.0,
    how: "time of each apply of 128 publishes, one after another without a pause",
};

/// Commit latency, one in a thousand.
pub(crate) const LATENCY_P999: Target = Target {
    id: "commit_p999",
    title: "commit latency p99.9 at full speed, all keys present",
    unit: Unit::Milliseconds,
    better: Better::Lower,
    must: 100.0,
    aim: 20.0,
    how: "from the same histogram as p99",
};

/// Memory.
pub(crate) const MEMORY: Target = Target {
    id: "memory_resident",
    title: "memory (RSS) with all jobs queued and keys present",
    unit: Unit::Memory,
    better: Better::Lower,
    must: 1024.0 * MIB,
    aim: 300.0 * MIB,
    how: "VmRSS of a fresh process that opened the preloaded store and published for a while",
};

/// Opening after a crash.
pub(crate) const OPEN: Target = Target {
    id: "open_after_kill",
    title: "open after SIGKILL with all jobs queued, keys present",
    unit: Unit::Seconds,
    better: Better::Lower,
    must: 5.0,
    aim: 1.0,
    how: "a process is killed while it publishes; a fresh one opens the directory and is timed until its first \
          publish and lease are answered; page cache warm, as it is after the crash of a process",
};

/// Expiry under load.
pub(crate) const EXPIRY: Target = Target {
    id: "expiry_vs_before",
    title: "expiring keys and jobs while publishing, vs before",
    unit: Unit::Ratio,
    better: Better::Higher,
    must: 0.5,
    aim: 0.8,
    how: "the clock moves past every window and retention; each batch of 128 publishes carries a prune of 128 until \
          all are gone; against publishes/s of the same store just before",
};

/// One at a time.
pub(crate) const SINGLE: Target = Target {
    id: "single_vs_raw",
    title: "one job at a time, against raw append of one",
    unit: Unit::Ratio,
    better: Better::Higher,
    must: 0.6,
    aim: 0.9,
    how: "batches of 1, every publish a new key, in alternating slices with append + fdatasync of one",
};

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&Target; 10] = [
        &PUBLISH,
        &PUBLISH_FULL,
        &LIVES,
        &BYTES,
        &LATENCY_P99,
        &LATENCY_P999,
        &MEMORY,
        &OPEN,
        &EXPIRY,
        &SINGLE,
    ];

    #[test]
    fn every_aim_is_better_than_its_must_and_every_title_fits_the_table() {
        for target in ALL {
            let better = if target.better == Better::Higher {
                target.aim > target.must
            } else {
                target.aim < target.must
            };
            assert!(better, "{}", target.id);
            assert!(target.title.len() <= 54, "{}", target.title);
        }
    }

    #[test]
    fn values_carry_their_unit() {
        assert_eq!(Unit::Memory.text(1024.0 * MIB), "1,024 MiB");
        assert_eq!(Unit::Milliseconds.text(1.234), "1.23 ms");
        assert_eq!(Unit::Bytes.text(2000.0), "2,000 B");
    }
}
