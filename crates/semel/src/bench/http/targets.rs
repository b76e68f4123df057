//! What the server must reach and what it aims for. Changing a number here is changing a promise.

use super::super::targets::{Better, Target, Unit};

const MIB: f64 = 1024.0 * 1024.0;

const fn higher(id: &'static str, title: &'static str, must: f64, aim: f64, how: &'static str) -> Target {
    Target { id, title, unit: Unit::Ratio, better: Better::Higher, must, aim, how }
}

const fn lower(
    id: &'static str,
    title: &'static str,
    unit: Unit,
    must: f64,
    aim: f64,
    how: &'static str,
) -> Target {
    Target { id, title, unit, better: Better::Lower, must, aim, how }
}

pub(super) const SINGLE: Target = higher(
    "single_vs_limit",
    "single publishes/s against the no-store limit",
    0.45,
    0.70,
    "64 connections, one request under way on each, every answer durable; slices alternate with the same server on a \
     store that answers at once",
);
pub(super) const ACK_P99: Target = lower(
    "ack_p99_vs_limit",
    "ack latency p99 of that run, vs the limit's p99",
    Unit::Ratio,
    2.5,
    1.6,
    "from request to answer, at the full speed of each",
);
pub(super) const CPU: Target = lower(
    "cpu_per_10000",
    "server CPU per 10,000 single publishes",
    Unit::Seconds,
    0.30,
    0.20,
    "user and system time of the server's process over the slice, its disk work included",
);
pub(super) const FLUSHES: Target = lower(
    "flushes_per_publish",
    "disk flushes per acknowledged publish, 64 publishers",
    Unit::Ratio,
    0.10,
    0.04,
    "commits counted by the server, each of which ends with one fdatasync of the log; checkpoints are not counted",
);
pub(super) const BATCHES: Target = higher(
    "batch_vs_store",
    "batch-of-100 publishes/s against the store's own rate",
    0.60,
    0.80,
    "16 connections; the store's own rate is that of apply with 256 publishes, in this process",
);
pub(super) const PUSH: Target = higher(
    "push_vs_single",
    "end to end, push: completed/s vs single publishes/s",
    0.40,
    0.55,
    "64 publishers and a worker that answers at once, first publish to last completion",
);
pub(super) const PULL: Target = higher(
    "pull_vs_batch",
    "end to end, pull: completed/s vs batch publishes/s",
    0.40,
    0.60,
    "4 publishers of batches of 100 and 4 workers that lease 50 and settle 50 in one request each",
);
pub(super) const LATENCY_P50: Target = lower(
    "handler_p50",
    "publish to handler at 200 jobs/s, p50",
    Unit::Milliseconds,
    1.0,
    0.5,
    "from just before the publish is sent to the worker's handler, push",
);
pub(super) const LATENCY_P99: Target = lower(
    "handler_p99",
    "publish to handler at 200 jobs/s, p99",
    Unit::Milliseconds,
    8.0,
    3.0,
    "from the same run as p50",
);
pub(super) const IDLE_CPU: Target = lower(
    "cpu_at_200",
    "server CPU at a steady 200 jobs/s, push (cores)",
    Unit::Ratio,
    0.10,
    0.04,
    "user and system time of the server's process over the run, as a share of one core",
);
pub(super) const BLACKHOLE: Target = higher(
    "blackhole",
    "1,000 queues, one blackholed: the others vs without",
    0.9,
    0.98,
    "jobs spread over 1,000 push queues, first publish to last completion: two servers alike, but that one has one more \
     queue, of 256 jobs whose endpoint never answers; in two pairs, each first in one of them",
);
pub(super) const REST: Target = lower(
    "rss_at_rest",
    "memory (RSS) at rest",
    Unit::Memory,
    40.0 * MIB,
    25.0 * MIB,
    "VmRSS of the server's process a second after it started",
);
pub(super) const LOADED: Target = lower(
    "rss_loaded",
    "memory (RSS) after 400,000 publishes",
    Unit::Memory,
    100.0 * MIB,
    60.0 * MIB,
    "VmRSS of the server's process, all jobs still queued",
);
pub(super) const BINARY: Target = lower(
    "binary",
    "binary, stripped",
    Unit::Memory,
    30.0 * MIB,
    15.0 * MIB,
    "this program after strip(1); as it is where strip is missing",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_aim_is_better_than_its_must_and_every_title_fits_the_plot() {
        let all = [
            &SINGLE,
            &ACK_P99,
            &CPU,
            &FLUSHES,
            &BATCHES,
            &PUSH,
            &PULL,
            &LATENCY_P50,
            &LATENCY_P99,
            &IDLE_CPU,
            &BLACKHOLE,
            &REST,
            &LOADED,
            &BINARY,
        ];
        for target in all {
            let better = match target.better {
                Better::Higher => target.aim > target.must,
                Better::Lower => target.aim < target.must,
            };
            assert!(better, "{}", target.id);
            assert!(target.title.len() <= 54, "{}", target.title);
        }
    }
}
