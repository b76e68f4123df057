//! The trace a request belongs to.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::service::Service;
use crate::telemetry::Context;

/// The trace that a request names in its header `traceparent`, if it does.
#[derive(Debug, Clone, Copy)]
pub(super) struct InTrace(pub(super) Option<Context>);

impl FromRequestParts<Arc<Service>> for InTrace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Service>) -> Result<Self, Infallible> {
        Ok(Self(Context::of_request(&parts.headers)))
    }
}
