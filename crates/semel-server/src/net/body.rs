//! Bodies that tell the watch what is waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body as AxumBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use super::pulse::{Pulse, Running};

/// A body was not there in time. Only HTTP/2 has it: on HTTP/1 the whole connection is ended with a 408.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body was not received within {0:?}: nothing was done, send it again")]
pub struct BodyTooSlow(pub Duration);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, with a limit on how long it may take.
pub(super) struct RequestBody {
    body: Incoming,
    clock: Clock,
}

/// Who ends the wait for a body.
pub(super) enum Clock {
    /// The connection's watch: on HTTP/1 there is one request at a time.
    Watch(Arc<Pulse>),
    /// A timer of its own, made when the body is first waited for: on HTTP/2 the others go on.
    Own(Duration, Option<Pin<Box<Sleep>>>),
}

impl RequestBody {
    pub(super) fn new(body: Incoming, clock: Clock) -> Self {
        Self { body, clock }
    }
}

impl Clock {
    /// Notes whether the body is being waited for; ready when that took too long.
    fn poll(&mut self, cx: &mut Context<'_>, waiting: bool) -> Poll<BodyTooSlow> {
        match self {
            Self::Watch(pulse) => {
                pulse.wants_body(waiting);
                Poll::Pending
            }
            Self::Own(limit, timer) if waiting => {
                let limit = *limit;
                ready!(timer.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(cx));
                Poll::Ready(BodyTooSlow(limit))
            }
            Self::Own(..) => Poll::Pending,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(late) = self.clock.poll(cx, polled.is_pending()) {
            return Poll::Ready(Some(Err(late.into())));
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer; while it lives, its request is running.
pub(super) struct AnswerBody {
    body: AxumBody,
    _running: Running,
}

impl AnswerBody {
    pub(super) fn new(body: AxumBody, running: Running) -> Self {
        Self { body, _running: running }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
