//! Gauges of what is in the queues, as of the last count.

use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use semel_core::lifecycle::State;
use semel_core::time::Timestamp;

use super::labels::{Labels, OnlyQueue};
use crate::stats::{QueueStats, Stats};

/// The states that make up a queue's depth: what is still to be done. Dead letters have a gauge of their own.
const OPEN: [State; 3] = [State::Pending, State::Processing, State::AwaitingAck];

/// The last count. It is shown as a whole, so a queue that is gone is gone from the gauges with the next count, and no
/// scrape ever sees half of one.
#[derive(Debug, Clone, Default)]
pub(super) struct Depth(Arc<Mutex<Option<Count>>>);

#[derive(Debug, Clone)]
struct Count {
    stats: Stats,
    at: Timestamp,
}

impl Depth {
    /// Shows a new count.
    pub(super) fn set(&self, stats: &Stats, at: Timestamp) {
        let mut count = self.0.lock().expect("nothing panics while the lock of the count is held");
        *count = Some(Count { stats: stats.clone(), at });
    }
}

impl Collector for Depth {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let count = self.0.lock().expect("nothing panics while the lock of the count is held").clone();
        // Before the first count nothing is known, and a zero would be a claim.
        let Some(Count { stats, at }) = count else { return Ok(()) };
        let queues = &stats.queues;
        let depth = queues
            .iter()
            .flat_map(|q| OPEN.map(|state| (Labels::new(Some(&q.queue), state), q.count(state))));
        gauge(&mut encoder, "queue_depth", "Unfinished jobs, by where they stand", depth)?;
        let dead = queues.iter().map(|q| (OnlyQueue(Some(q.queue.clone())), q.dead));
        gauge(&mut encoder, "dead_letters", "Dead letters", dead)?;
        let ages = queues.iter().map(|q| (OnlyQueue(Some(q.queue.clone())), ready_for(q, at)));
        gauge(&mut encoder, "oldest_ready_age_seconds", "How long the oldest ready job has been ready", ages)
    }
}

/// Seconds since the oldest ready job became ready; zero if none is.
fn ready_for(queue: &QueueStats, now: Timestamp) -> f64 {
    queue.oldest_ready.map_or(0.0, |due| now.since(due).millis() as f64 / 1000.0)
}

fn gauge<L: EncodeLabelSet, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl Iterator<Item = (L, V)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}
