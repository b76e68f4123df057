//! A webhook on a real socket, called by a real server.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use semel_client::webhook::{Verifier, Webhook};
use semel_client::{Delivery, Effect, Handler, Outcome, Publish, State};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::world::World;

/// A worker with a webhook.
pub(crate) struct Hook {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Hook {
    /// The webhook of the queue `q`, which is made for it.
    pub(crate) async fn on(world: &World, handler: impl Handler) -> Self {
        Self::of(world, |secret| route(Verifier::new([secret]), handler)).await
    }

    /// The same with a router that knows the queue's secret, and has the webhook at `/hook`.
    pub(crate) async fn of(world: &World, router: impl FnOnce(&str) -> Router) -> Self {
        let secret = secret(world, queue(NOBODY)).await;
        let hook = Self::start(router(&secret)).await;
        world.put("/v1/queues/q", queue(hook.address)).await;
        hook
    }

    async fn start(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, server }
    }
}

fn route(verifier: Verifier, handler: impl Handler) -> Router {
    Router::new().route_service("/hook", Webhook::new(verifier, handler))
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Where nobody listens.
const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

/// Makes a push queue that calls nobody yet, and returns its secret.
async fn secret(world: &World, body: serde_json::Value) -> String {
    world.put("/v1/queues/q", body).await;
    let rotated = world.post("/v1/queues/q/secrets/rotate", json!({})).await;
    rotated["secret"].as_str().unwrap().to_owned()
}

fn queue(address: SocketAddr) -> serde_json::Value {
    let retry = json!({ "strategy": "fixed", "base": 0, "jitter": "none" });
    let delivery = json!({ "type": "push", "url": format!("http://{address}/hook") });
    json!({ "delivery": delivery, "retry": retry, "maxAttempts": 3, "deferScope": "job" })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_says_is_what_becomes_of_the_job() {
    let world = World::start().await;
    let secret = secret(&world, queue(NOBODY)).await;
    let handler = async |delivery: Delivery| -> Outcome {
        match (delivery.payload().unwrap(), delivery.attempt, delivery.defer_count) {
            (1, _, _) => Outcome::done_with("done").receipt(Effect::Replayed, Some("k")),
            (2, 1, _) => Outcome::fail("no luck"),
            (3, _, _) => Outcome::reject("never"),
            (4, _, 0) => Outcome::defer(Duration::from_secs(7)),
            _ => Outcome::done(),
        }
    };
    // The queue signs with the old and the new secret, and the worker has the new one and one of another queue.
    let hook = Hook::start(route(Verifier::new(["whsec_b3RoZXI=", &secret]), handler)).await;
    world.put("/v1/queues/q", queue(hook.address)).await;
    let client = world.client();
    let mut jobs = Vec::new();
    for n in 1..=4 {
        jobs.push(client.publish(&Publish::new("q", &n).unwrap()).await.unwrap().id);
    }
    let done = world.until(&jobs[0], State::Completed).await;
    assert_eq!(done.result::<String>().unwrap().as_deref(), Some("done"));
    assert_eq!(done.effect.unwrap().outcome, Effect::Replayed);
    let retried = world.until(&jobs[1], State::Completed).await;
    assert_eq!((retried.attempts, retried.history[0].webhook_status_code), (2, Some(500)));
    let rejected = world.until(&jobs[2], State::Dead).await;
    assert_eq!(rejected.attempts, 1, "{:?}", rejected.history);
    crate::world::until(async || client.job(&jobs[3]).await.unwrap().defer_count == 1).await;
    world.advance(Duration::from_secs(8));
    let deferred = world.until(&jobs[3], State::Completed).await;
    assert_eq!((deferred.attempts, deferred.history[0].webhook_status_code), (1, Some(503)));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_strange_signature_reaches_no_handler() {
    let world = World::start().await;
    let handler = async |_: Delivery| -> Outcome { panic!("it must not get here") };
    let hook = Hook::start(route(Verifier::new(["whsec_b3RoZXI="]), handler)).await;
    secret(&world, queue(hook.address)).await;
    let job = world.client().publish(&Publish::new("q", &1).unwrap()).await.unwrap().id;
    let dead = world.until(&job, State::Dead).await;
    assert!(
        dead.history.iter().all(|attempt| attempt.webhook_status_code == Some(401)),
        "{:?}",
        dead.history
    );
    world.end().await;
}
