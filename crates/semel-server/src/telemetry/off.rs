//! What stands in for the exporter in a program without the feature `otlp`. None of it can exist, which the compiler knows, so
//! that nothing is left of the places where spans would be recorded.

use semel_core::ids::Token;

use super::span::Span;
use super::{Context, Sending, Telemetry};
use crate::metrics::Metrics;
use crate::peers::Identity;

/// Where spans are sent to; there is no such place.
#[derive(Debug, Clone)]
pub enum Export {}

#[derive(Debug)]
pub(super) enum Recorder {}

#[derive(Debug)]
pub(super) enum Exporting {}

#[derive(Debug)]
pub(super) enum Handed {}

impl Export {
    pub(super) fn start(self, _: &Identity, _: Metrics) -> (Telemetry, Sending) {
        match self {}
    }
}

impl Recorder {
    pub(super) fn draws(&self) -> bool {
        match *self {}
    }

    pub(super) fn record(&self, _: Span) {
        match *self {}
    }

    pub(super) fn handed(&self) -> &Handed {
        match *self {}
    }
}

impl Handed {
    pub(super) fn put(&self, _: Token, _: Context) {
        match *self {}
    }

    pub(super) fn get(&self, _: Token) -> Option<Context> {
        match *self {}
    }
}

impl Exporting {
    #[expect(clippy::unused_async, reason = "it stands in for one that waits")]
    pub(super) async fn stop(self) {
        match self {}
    }
}
