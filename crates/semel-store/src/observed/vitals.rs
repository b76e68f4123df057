//! Gauges of how the store itself is, as of the last look.

use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::health::Health;

/// The last look. What a store cannot know has no gauge: a zero would be a claim.
#[derive(Debug, Clone, Default)]
pub(super) struct Vitals(Arc<Mutex<Option<Health>>>);

impl Vitals {
    /// Shows a new look.
    pub(super) fn set(&self, health: Health) {
        *self.0.lock().expect("nothing panics while the lock of the look is held") = Some(health);
    }
}

impl Collector for Vitals {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let look = *self.0.lock().expect("nothing panics while the lock of the look is held");
        let Some(health) = look else { return Ok(()) };
        let help = "Idempotency keys that are kept, roughly: the embedded store counts the entries of its index, \
                    PostgreSQL estimates the rows of its table";
        gauge(&mut encoder, "keys", help, Some(health.keys))?;
        gauge(&mut encoder, "store_size_bytes", "Bytes that the store takes up", health.bytes)?;
        let help = "Bytes of the embedded store's log, which is part of its size";
        gauge(&mut encoder, "store_log_bytes", help, health.log_bytes)?;
        let help = "Bytes that are free on the disk of the embedded store";
        gauge(&mut encoder, "store_free_bytes", help, health.free_bytes)?;
        let help = "With fewer free bytes than this, new jobs are refused";
        gauge(&mut encoder, "store_reserve_bytes", help, health.reserve_bytes)
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: Option<u64>) -> fmt::Result {
    let Some(value) = value else { return Ok(()) };
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}
