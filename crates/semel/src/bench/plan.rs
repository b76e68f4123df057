//! How much a run of the benchmark does.

use serde::Serialize;

use super::workload;
use crate::text;

/// The sizes of one run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Plan {
    /// Keys (and queued jobs) that are there before the full store is measured.
    pub keys: u64,
    /// Publishes per measure and run.
    pub jobs: u64,
    /// How often everything is measured; the median counts.
    pub runs: u32,
    /// Finished jobs that expire under load.
    pub expiring: u64,
    /// Publishes of the batch-of-one measure, per run.
    pub singles: u64,
    /// Bytes of one payload.
    pub payload_bytes: usize,
    /// Bytes of one key.
    pub key_bytes: usize,
    /// Queues.
    pub queues: u64,
    /// Publishes per commit.
    pub batch: usize,
    /// Repeats among the publishes, in percent.
    pub repeats_percent: u32,
    /// What a repeat repeats.
    pub repeats: String,
}

impl Plan {
    /// The plan that the table is about: ten million keys, medians of three.
    pub(crate) fn full() -> Self {
        Self::of(10_000_000, 500_000, 3)
    }

    /// A plan that takes seconds: it shows that everything works, and its figures prove nothing.
    pub(crate) fn quick() -> Self {
        Self::of(200_000, 20_000, 1)
    }

    /// A plan with these sizes; the rest follows from them.
    pub(crate) fn of(keys: u64, jobs: u64, runs: u32) -> Self {
        Self {
            keys,
            jobs,
            runs,
            expiring: (keys / 10).max(1),
            singles: (jobs / 100).max(50),
            payload_bytes: workload::PAYLOAD_BYTES,
            key_bytes: workload::KEY_BYTES,
            queues: workload::QUEUES,
            batch: workload::BATCH,
            repeats_percent: workload::REPEATS_PERCENT,
            repeats: format!(
                "half among the {} newest jobs, half uniform over all jobs present",
                text::count(workload::RECENT)
            ),
        }
    }

    /// The plan in words.
    pub(crate) fn about(&self) -> Vec<String> {
        let runs = if self.runs == 1 { "1 run".into() } else { format!("median of {} runs", self.runs) };
        vec![
            format!(
                "{} keys and queued jobs present, {} publishes per measure, {runs}",
                text::count(self.keys),
                text::count(self.jobs)
            ),
            format!(
                "{}-byte payloads, {}-byte keys, {} queues, batches of {}, every commit fsynced",
                self.payload_bytes, self.key_bytes, self.queues, self.batch
            ),
            format!("{} % repeats: {}", self.repeats_percent, self.repeats),
        ]
    }

    /// Disk space the run needs, generously: rows, key runs, logs and the stores of the smaller measures.
    pub(crate) fn disk_bytes(&self) -> u64 {
        const PER_JOB: u64 = 1200;
        let jobs = self.keys + self.expiring * 2 + self.jobs * u64::from(self.runs) * 4;
        (64 << 20) + jobs * PER_JOB
    }
}
