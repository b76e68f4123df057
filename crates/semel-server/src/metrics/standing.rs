//! Gauges of where the queues stand, as of the last look: their breakers, and what the window proof says of their settings.

use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use semel_core::breaker::Breaker;
use semel_core::records::QueueRecord;
use semel_core::window;

use super::QueueLabel;

/// The last look. It is shown as a whole: a queue that is gone is gone with the next one, and no scrape sees half of one.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing(Arc<Mutex<Vec<Queue>>>);

#[derive(Debug, Clone)]
struct Queue {
    label: QueueLabel,
    /// None for a queue without one.
    breaker: Option<u64>,
    shortfalls: u64,
}

impl Standing {
    /// Shows a new look.
    pub(super) fn set(&self, queues: &[QueueRecord]) {
        let look = queues.iter().map(Queue::of).collect();
        *self.0.lock().expect("nothing panics while the lock of the look is held") = look;
    }
}

impl Queue {
    fn of(queue: &QueueRecord) -> Self {
        Self {
            label: QueueLabel::of(&queue.name),
            breaker: queue.config.breaker.is_some().then(|| state_of(&queue.gate.breaker)),
            shortfalls: window::prove(&queue.config, None).len() as u64,
        }
    }
}

fn state_of(breaker: &Breaker) -> u64 {
    match breaker {
        Breaker::Closed { .. } => 0,
        Breaker::HalfOpen { .. } => 1,
        Breaker::Open { .. } => 2,
    }
}

impl Collector for Standing {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.0.lock().expect("nothing panics while the lock of the look is held").clone();
        let help = "State of the circuit breaker: 0 closed, 1 half open, 2 open";
        let breakers = queues.iter().filter_map(|queue| Some((&queue.label, queue.breaker?)));
        gauge(&mut encoder, "breaker_state", help, breakers)?;
        let help = "Settings of a queue that the window proof finds too short; 0 is proven";
        let shortfalls = queues.iter().map(|queue| (&queue.label, queue.shortfalls));
        gauge(&mut encoder, "window_shortfalls", help, shortfalls)
    }
}

fn gauge<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl Iterator<Item = (&'a QueueLabel, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (label, value) in series {
        metric.encode_family(label)?.encode_gauge(&value)?;
    }
    Ok(())
}
