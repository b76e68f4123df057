//! A webhook as a service of tower.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tower_service::Service;

use super::Verifier;
use super::answer::{self, Answer};
use crate::Handler;

/// The largest request that is read: a payload as large as queues take by default is 256 KiB, and an operator may allow
/// more.
const BODY_MAX: usize = 16 * 1024 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Verifies requests, has a handler work on them, and answers what it said: the result as the body, the receipt as
/// `Semel-Effect`, a deferral as 503 with `Retry-After`, a rejection with `Semel-Retry: no`.
///
/// For queues that wait for the answer (`mode: "standard"`). A handler that needs longer than the queue's time-out is for
/// a worker that pulls, or for a queue in ack mode with a [`Verifier`] alone.
#[derive(Debug)]
pub struct Webhook<H>(Arc<Inner<H>>);

#[derive(Debug)]
struct Inner<H> {
    verifier: Verifier,
    handler: H,
}

impl<H: Handler> Webhook<H> {
    /// A webhook whose requests are verified like this, and worked on by this handler.
    pub fn new(verifier: Verifier, handler: H) -> Self {
        Self(Arc::new(Inner { verifier, handler }))
    }

    /// Answers one request that was read already.
    pub async fn answer(&self, headers: &HeaderMap, body: &[u8]) -> Answer {
        match self.0.verifier.verify(headers, body) {
            Ok(delivery) => answer::of(self.0.handler.handle(delivery).await),
            Err(rejection) => answer::rejected(&rejection),
        }
    }
}

impl<H> Clone for Webhook<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H, B> Service<Request<B>> for Webhook<H>
where
    H: Handler,
    B: http_body_util::BodyExt<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let webhook = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            Ok(match Limited::new(body, BODY_MAX).collect().await {
                Ok(body) => webhook.answer(&head.headers, &body.to_bytes()).await,
                Err(error) => answer::text(unread(&error), error.to_string()),
            })
        })
    }
}

fn unread(error: &BoxError) -> StatusCode {
    if error.is::<LengthLimitError>() { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST }
}
