//! From hyper's requests to the router's: the peer is noted, and what there is no room for is turned away unread.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::{HttpService, service_fn};
use tower_service::Service;

use super::accept::Door;
use super::body::{AnswerBody, Clock, RequestBody};
use super::pulse::{Pulse, Running, Speech};
use super::{Peer, refusal};

/// The service of one connection.
pub(super) fn service(
    door: Arc<Door>,
    peer: SocketAddr,
    pulse: Arc<Pulse>,
) -> impl HttpService<Incoming, ResBody = AnswerBody, Error = Infallible, Future: Send + 'static> + Send + 'static
{
    service_fn(move |request: Request<Incoming>| {
        let running = Running::begin(&pulse);
        let clock = match pulse.speech() {
            Speech::Http1 => Clock::Watch(pulse.clone()),
            Speech::Http2 => Clock::Own(door.server.limits.body_timeout, None),
        };
        let answer = answer(&door, request, peer, clock);
        async move { Ok(answer.await.map(|body| AnswerBody::new(body, running))) }
    })
}

/// Hands a request to the router, or turns it away.
fn answer(
    door: &Door,
    request: Request<Incoming>,
    peer: SocketAddr,
    clock: Clock,
) -> impl Future<Output = Response<Body>> + Send + use<> {
    let shed = if changes(request.method()) { (door.server.shed)() } else { None };
    let routed = shed.is_none().then(|| {
        let mut request = request.map(|body| Body::new(RequestBody::new(body, clock)));
        request.extensions_mut().insert(Peer(peer));
        door.server.app.clone().call(request)
    });
    async move {
        match routed {
            Some(routed) => routed.await.unwrap_or_else(|never| match never {}),
            None => refusal::overloaded(shed.unwrap_or_default()),
        }
    }
}

/// Whether a request may need the commit queue. Reads do not, and a full queue is when health and metrics matter most.
fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
