//! Tracing: the way of a job from its publisher through the queue to its worker, as spans of one trace.
//!
//! The context of a trace travels in any case: a publish that carries a `traceparent` has it kept with its job, and the worker
//! gets it back with the delivery as the parent. Spans are recorded, and sent to a collector over OTLP, only with the cargo
//! feature `otlp` and an endpoint in the configuration. Without either, [`Telemetry`] holds nothing and does nothing.
//!
//! Recording never waits: a span goes into a bounded queue, and where there is no room it is dropped and counted.

pub mod context;
mod deliver;
#[cfg(feature = "otlp")]
mod export;
#[cfg(feature = "otlp")]
mod handed;
#[cfg(not(feature = "otlp"))]
mod off;
mod publish;
mod settle;
mod span;
#[cfg(feature = "otlp")]
mod wire;

use std::sync::Arc;

use crate::metrics::Metrics;
use crate::peers::Identity;

pub use self::context::Context;
#[cfg(feature = "otlp")]
pub use self::export::Export;
#[cfg(feature = "otlp")]
use self::export::{Exporting, Recorder};
#[cfg(not(feature = "otlp"))]
pub use self::off::Export;
#[cfg(not(feature = "otlp"))]
use self::off::{Exporting, Recorder};
pub(crate) use self::publish::Publishing;

/// Whether this program can export spans at all.
pub const COMPILED: bool = cfg!(feature = "otlp");

/// Where spans go: nowhere, unless tracing is on.
#[derive(Debug, Clone, Default)]
pub struct Telemetry(Option<Arc<Recorder>>);

impl Telemetry {
    fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.0.as_ref()
    }
}

/// The background task that sends spans, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Sending(Option<Exporting>);

impl Sending {
    /// Sends what is left, as far as that can be done quickly, and ends.
    pub(crate) async fn stop(self) {
        if let Some(exporting) = self.0 {
            exporting.stop().await;
        }
    }
}

/// Turns tracing on, if that is asked for.
pub(crate) fn start(export: Option<Export>, identity: &Identity, metrics: &Metrics) -> (Telemetry, Sending) {
    export.map(|export| export.start(identity, metrics.clone())).unwrap_or_default()
}
