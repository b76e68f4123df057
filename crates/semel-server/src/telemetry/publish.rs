//! The span of a publish. Deliveries are its children, by the context that is kept with the job.

use std::sync::Arc;

use semel_core::name::QueueName;
use semel_core::publish::Published;

use super::span::{Began, Kind, Span, Step, Value};
use super::{Context, Recorder, Telemetry};

/// A publish under way.
pub(crate) struct Publishing {
    kept: Option<Context>,
    span: Option<Open>,
}

struct Open {
    recorder: Arc<Recorder>,
    context: Context,
    parent: Option<Context>,
    began: Began,
}

impl Telemetry {
    /// A publish begins. It belongs to the trace that its publisher names; one without a trace may begin one, if it is drawn.
    pub(crate) fn publishing(&self, parent: Option<Context>) -> Publishing {
        let Some(recorder) = self.recorder() else { return Publishing { kept: parent, span: None } };
        let context = match parent {
            Some(parent) => parent.is_sampled().then(|| parent.child()),
            None => recorder.draws().then(Context::root),
        };
        let open = |context| Open { recorder: recorder.clone(), context, parent, began: Began::now() };
        Publishing { kept: context.or(parent), span: context.map(open) }
    }
}

impl Publishing {
    /// What is to be kept with the job.
    pub(crate) fn kept(&self) -> Option<Context> {
        self.kept
    }

    /// One job was published, or an earlier one found, or it was refused for the reason with this code.
    pub(crate) fn end(self, queue: &QueueName, answer: Result<&Published, &str>) {
        let Some(open) = self.span else { return };
        let span = open.span(queue);
        open.recorder.record(match answer {
            Ok(published) => found(span.about(published.id), published),
            Err(code) => span.failed(code),
        });
    }

    /// A batch was published: so many jobs, so many of them found.
    pub(crate) fn end_batch(self, queue: &QueueName, jobs: usize, found: usize) {
        let Some(open) = self.span else { return };
        let count = |count| Value::Number(i64::try_from(count).unwrap_or(i64::MAX));
        let span = open.span(queue).with("messaging.batch.message_count", count(jobs));
        open.recorder.record(match found {
            0 => span,
            _ => span
                .marked("semel.deduplicated", "job.deduplicated")
                .with("semel.deduplicated.count", count(found)),
        });
    }
}

impl Open {
    fn span(&self, queue: &QueueName) -> Span {
        Span::new(Step::Publish, Kind::Producer, self.context, Some(queue), self.began).under(self.parent)
    }
}

/// A deduplication is neither a success nor a failure: it is marked, and so is a collision.
fn found(span: Span, published: &Published) -> Span {
    match (published.deduplicated, published.payload_matches) {
        (false, _) => span,
        (true, true) => span.marked("semel.deduplicated", "job.deduplicated"),
        (true, false) => {
            span.with("semel.collision", Value::Truth(true)).marked("semel.deduplicated", "job.collision")
        }
    }
}
