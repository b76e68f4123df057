//! The trace context of a publish, carried to the worker.

use crate::telemetry::context::{self, Context};

/// The metadata entry that carries a publisher's `traceparent`.
pub const METADATA_NAME: &str = context::NAME;

/// The header of a delivery: the publisher's trace, with the delivery as the parent.
pub(super) fn child(parent: &str, delivery: u64) -> Option<String> {
    Context::parse(parent).map(|publish| publish.at(delivery).to_string())
}
