//! The event stream: what happens on this node, as it happens (server-sent events).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use semel_core::name::QueueName;
use semel_core::records::Scope;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use utoipa::ToSchema;

use super::auth::Caller;
use super::path::Params;
use super::problem::{Problem, ProblemBody};
use super::wire::Time;
use crate::news::Event;
use crate::service::Service;

/// How often a silent stream says that it lives, so that no proxy takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventView<'a> {
    /// What happened.
    #[serde(rename = "type")]
    kind: &'static str,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    at: Time,
    /// In which queue.
    #[schema(required = true)]
    queue: Option<&'a str>,
    /// To which job.
    #[schema(required = true)]
    job: Option<String>,
    /// More, in words.
    #[schema(required = true)]
    detail: Option<&'a str>,
}

impl<'a> EventView<'a> {
    fn of(event: &'a Event) -> Self {
        Self {
            kind: event.kind.name(),
            at: Time(event.at),
            queue: event.queue.as_ref().map(QueueName::as_str),
            job: event.job.map(|id| id.to_string()),
            detail: event.detail.as_deref(),
        }
    }
}

/// What happens from now on. A listener that is too slow is told how many events it missed.
#[utoipa::path(get, path = "/v1/events", tag = "operate", params(("queue" = Option<String>, Query, description = "Only this queue")),
    responses((status = 200, description = "Events", content_type = "text/event-stream", body = EventView), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn events(
    State(service): State<Arc<Service>>,
    caller: Caller,
    params: Params,
) -> Result<Response, Problem> {
    let params = params.only(&["queue"])?;
    let only = params.get("queue").map(|name| QueueName::try_from(name.as_str())).transpose()?;
    match &only {
        Some(queue) => caller.may_in(Scope::Read, queue)?,
        None => caller.may_everywhere(Scope::Read)?,
    }
    let listener = service.news.listen();
    let state = (listener, only, service.stop.clone());
    let stream = stream::unfold(state, |(mut listener, only, stop)| async move {
        loop {
            let heard = tokio::select! {
                heard = listener.recv() => heard,
                () = stop.stopped() => return None,
            };
            let told = match heard {
                Ok(event) if only.as_ref().is_none_or(|queue| event.queue.as_ref() == Some(queue)) => {
                    tell(&event)
                }
                Ok(_) => continue,
                Err(RecvError::Lagged(missed)) => {
                    sse::Event::default().event("missed").data(missed.to_string())
                }
                Err(RecvError::Closed) => return None,
            };
            return Some((Ok::<_, Infallible>(told), (listener, only, stop)));
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn tell(event: &Event) -> sse::Event {
    let data = serde_json::to_string(&EventView::of(event)).expect("an event is plain data");
    sse::Event::default().event(event.kind.name()).data(data)
}
