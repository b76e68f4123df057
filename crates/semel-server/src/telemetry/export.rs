//! Sending spans to a collector: in batches, by a background task, over OTLP/HTTP with JSON.
//!
//! By hand, and not with the OpenTelemetry SDK: there, nobody outside chooses the number of a span, and that of a delivery has to
//! be the one its worker was given; its batching thread has no reactor for our HTTP client; and the number of dropped spans, which
//! belongs among the metrics, cannot be read. What is left of it would be the encoding, which is `wire.rs`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::handed::Handed;
use super::span::Span;
use super::{Sending, Telemetry, wire};
use crate::delivery::call::{Call, Caller};
use crate::delivery::endpoint::Endpoint;
use crate::metrics::{Metrics, SpanOutcome};
use crate::peers::Identity;
use crate::stop::{self, Stop, Stopper};

/// Spans that may wait to be sent: about a second's worth of a busy server, and a few megabytes.
const WAITING_MOST: usize = 8192;

/// Spans in one request. Collectors take a few megabytes; a span is half a kilobyte.
const BATCH_MOST: usize = 512;

/// How long the first span of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// How long the collector may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often a batch is tried. A collector that restarts is back by then; one that is gone must not make spans pile up.
const TRIES: u32 = 3;

/// The wait before a batch is tried again, doubled each time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the end of the server waits for the last spans.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where spans are sent to, and which.
#[derive(Clone)]
pub struct Export {
    /// Calls the collector.
    pub caller: Caller,
    /// Where it takes traces.
    pub endpoint: Arc<Endpoint>,
    /// What it wants to be told with each request, such as a key.
    pub headers: HeaderMap,
    /// The share of publishes without a trace of their own that begin one, from 0 to 1.
    pub sample: f64,
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Takes spans.
#[derive(Debug)]
pub(super) struct Recorder {
    spans: mpsc::Sender<Span>,
    handed: Handed,
    sample: f64,
    metrics: Metrics,
}

impl Recorder {
    /// Whether a publish without a trace is to begin one.
    pub(super) fn draws(&self) -> bool {
        rand::random::<f64>() < self.sample
    }

    /// Takes a span, or drops it if too many wait. The caller never does.
    pub(super) fn record(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.metrics.spans(SpanOutcome::Dropped, 1);
        }
    }

    /// The deliveries that are out.
    pub(super) fn handed(&self) -> &Handed {
        &self.handed
    }
}

/// The task that sends.
#[derive(Debug)]
pub(super) struct Exporting {
    stopper: Stopper,
    task: JoinHandle<()>,
}

impl Exporting {
    pub(super) async fn stop(self) {
        let Self { stopper, mut task } = self;
        stopper.stop();
        match tokio::time::timeout(FAREWELL, &mut task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the export of spans had ended before it was to"),
            Err(_) => {
                tracing::warn!("the last spans could not be exported in time");
                task.abort();
            }
        }
    }
}

impl Export {
    /// Starts the task that sends.
    pub(super) fn start(self, identity: &Identity, metrics: Metrics) -> (Telemetry, Sending) {
        let (sender, spans) = mpsc::channel(WAITING_MOST);
        let (stopper, stop) = stop::pair();
        let recorder = Recorder {
            spans: sender,
            handed: Handed::default(),
            sample: self.sample,
            metrics: metrics.clone(),
        };
        let node = identity.name.clone();
        let line = Line { export: self, node, spans, metrics, stop, is_broken: false };
        let exporting = Exporting { stopper, task: tokio::spawn(line.run()) };
        (Telemetry(Some(Arc::new(recorder))), Sending(Some(exporting)))
    }
}

/// The way to the collector.
struct Line {
    export: Export,
    node: String,
    spans: mpsc::Receiver<Span>,
    metrics: Metrics,
    stop: Stop,
    /// Whether the last batch could not be sent: that is told once, and counted every time.
    is_broken: bool,
}

impl Line {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH_MOST);
        while self.gather(&mut batch).await {
            self.send(&batch).await;
            batch.clear();
        }
    }

    /// Waits for spans, and then a moment for more. False when there will be none.
    async fn gather(&mut self, batch: &mut Vec<Span>) -> bool {
        let first = tokio::select! {
            biased;
            () = self.stop.stopped() => {
                // What waits is still to be had; nothing comes after it.
                self.spans.close();
                self.spans.recv_many(batch, BATCH_MOST).await
            }
            first = self.spans.recv_many(batch, BATCH_MOST) => first,
        };
        if first == 0 {
            return false;
        }
        let over = tokio::time::sleep(GATHER);
        tokio::pin!(over);
        while batch.len() < BATCH_MOST {
            let room = BATCH_MOST - batch.len();
            tokio::select! {
                biased;
                () = self.stop.stopped() => break,
                () = &mut over => break,
                more = self.spans.recv_many(batch, room) => if more == 0 { break },
            }
        }
        true
    }

    async fn send(&mut self, batch: &[Span]) {
        let body = Bytes::from(wire::encode(batch, &self.node));
        let sent = self.try_to_send(body).await;
        let outcome = if sent.is_ok() { SpanOutcome::Exported } else { SpanOutcome::Failed };
        self.metrics.spans(outcome, batch.len());
        match sent {
            Ok(()) if self.is_broken => tracing::info!("spans reach the collector again"),
            Err(reason) if !self.is_broken => tracing::warn!(
                reason,
                "spans cannot be exported; this is not said again until they can. Is telemetry.otlp.endpoint the \
                 collector's OTLP/HTTP port (4318)?"
            ),
            _ => {}
        }
        self.is_broken = outcome == SpanOutcome::Failed;
    }

    /// Sends a batch, again after a while if that may help. A server that ends tries once.
    async fn try_to_send(&self, body: Bytes) -> Result<(), String> {
        let (mut wait, mut tries) = (AGAIN_AFTER, 1);
        loop {
            match self.post(body.clone()).await {
                Ok(()) => return Ok(()),
                Err((reason, may_pass)) if !may_pass || tries == TRIES || self.stop.is_stopped() => {
                    return Err(reason);
                }
                Err(_) => {}
            }
            tokio::select! {
                () = self.stop.stopped() => {}
                () = tokio::time::sleep(wait) => {}
            }
            (wait, tries) = (wait * 2, tries + 1);
        }
    }

    /// One request. What went wrong, and whether it may pass.
    async fn post(&self, body: Bytes) -> Result<(), (String, bool)> {
        let mut headers = self.export.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let call = Call { url: self.export.endpoint.clone(), headers, body, timeout: TIMEOUT };
        match self.export.caller.call(call).await {
            Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
            Ok(answer) => {
                let may_pass = matches!(answer.status, 429 | 502..=504);
                Err((format!("the collector answered {}", answer.status), may_pass))
            }
            Err(error) => Err((error.to_string(), true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::super::Context;
    use super::super::span::{Began, Kind, Step};
    use super::*;
    use crate::metrics::text::Format;

    #[test]
    fn a_span_without_room_is_dropped_and_counted() {
        let mut registry = Registry::default();
        let (sender, mut spans) = mpsc::channel(2);
        let metrics = Metrics::register(&mut registry);
        let recorder = Recorder { spans: sender, handed: Handed::default(), sample: 0.5, metrics };
        for _ in 0..5 {
            recorder.record(Span::new(Step::Publish, Kind::Producer, Context::root(), None, Began::now()));
        }
        let text = Format::Classic.write(&registry).unwrap();
        assert!(text.contains("spans_total{outcome=\"dropped\"} 3"), "{text}");
        assert!(spans.try_recv().is_ok() && spans.try_recv().is_ok() && spans.try_recv().is_err());
        let drawn = (0..1000).filter(|_| recorder.draws()).count();
        assert!((300..700).contains(&drawn), "half of them: {drawn}");
    }
}
