//! The span of a settle that a worker asked for.

use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::outcome::Effect;
use semel_store::group_commit::CommitError;
use semel_store::{Command, Reply};

use super::deliver::verb;
use super::span::{Began, Kind, Span, Step, Value, effect_of};
use super::{Context, Recorder, Telemetry};

/// A settle under way.
pub(crate) struct Settling {
    recorder: Arc<Recorder>,
    job: JobId,
    verb: &'static str,
    effect: Option<Effect>,
    /// What it belongs under: what the worker was doing, or else the delivery.
    parent: Context,
    /// The delivery, where it is known and not the parent.
    delivery: Option<Context>,
    began: Began,
}

impl Telemetry {
    /// A worker settles. It is told in the trace that the request names, or in that of the delivery if this server handed it
    /// out. Where neither is known there is nothing to link it to, and it is not told.
    pub(crate) fn settling(&self, command: &Command, asked: Option<Context>) -> Option<Settling> {
        let recorder = self.recorder()?;
        let Command::Settle(settle) = command else { return None };
        let delivery = settle.token().and_then(|token| recorder.handed().get(token));
        let parent = asked.or(delivery).filter(|parent| parent.is_sampled())?;
        Some(Settling {
            recorder: recorder.clone(),
            job: settle.id(),
            verb: verb(settle.outcome()),
            effect: effect_of(settle.outcome()),
            parent,
            delivery: delivery.filter(|delivery| *delivery != parent),
            began: Began::now(),
        })
    }
}

impl Settling {
    /// It was settled, or not.
    pub(crate) fn end(self, answer: &Result<Reply, CommitError>) {
        let queue = match answer {
            Ok(Reply::Settled { queue, .. }) => Some(queue),
            _ => None,
        };
        let span = Span::new(Step::Settle(self.verb), Kind::Server, self.parent.child(), queue, self.began);
        let span = Span { link: self.delivery, ..span.under(Some(self.parent)).about(self.job) };
        self.recorder.record(match answer {
            Ok(Reply::Settled { state, .. }) => {
                span.with("semel.status", Value::Text(state.name().to_owned())).with_effect(self.effect)
            }
            Ok(_) => span,
            Err(error) => span.failed(code(error)),
        });
    }
}

fn code(error: &CommitError) -> &'static str {
    match error {
        CommitError::Refused(refusal) => refusal.code(),
        CommitError::Overloaded(_) => "overloaded",
        CommitError::Store(_) => "store_failed",
    }
}
