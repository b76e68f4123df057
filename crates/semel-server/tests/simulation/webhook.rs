//! A worker that is called: it fails, asks for time, hangs, and answers too late, by dice.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use semel_proof::history::Say;
use semel_server::net::Listener;
use tokio::time::sleep;

use crate::lanes::{ACK_TIMEOUT, TIMEOUT};
use crate::line::Line;
use crate::net::SimListener;
use crate::package::{Package, lasting};
use crate::world::World;

type Answer = Response<Full<Bytes>>;

/// Answers calls until it crashes.
pub(crate) async fn run(world: Arc<World>) -> turmoil::Result {
    let mut listener = SimListener::bind().await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let world = world.clone();
        let service = service_fn(move |request| answer(world.clone(), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A connection that breaks is the server's to notice.
        tokio::spawn(async move { drop(connection.await) });
    }
}

async fn answer(world: Arc<World>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let acks_later = request.uri().path() == "/acks";
    let Ok(body) = request.into_body().collect().await else {
        return Ok(status(StatusCode::BAD_REQUEST));
    };
    let package: Package = match serde_json::from_slice(&body.to_bytes()) {
        Ok(package) => package,
        Err(error) => {
            world.complain(format!("I2: a webhook got what is not a delivery: {error}"));
            return Ok(status(StatusCode::BAD_REQUEST));
        }
    };
    world.received(&package.delivered());
    sleep(Duration::from_millis(world.hook_roll(5..=300))).await;
    Ok(if acks_later { receive(world, package) } else { work(&world, &package).await })
}

/// Does the work, or not, and says so, or not.
async fn work(world: &World, package: &Package) -> Answer {
    let fate = if world.is_calm() { 0 } else { world.hook_roll(0..=99) };
    match fate {
        0..=64 => done(world, package),
        65..=72 => status(StatusCode::INTERNAL_SERVER_ERROR),
        73..=78 => {
            // The effect happened, and the handler fell over after it.
            world.ledger.run(package.id());
            status(StatusCode::INTERNAL_SERVER_ERROR)
        }
        79..=86 => {
            let mut busy = status(StatusCode::SERVICE_UNAVAILABLE);
            busy.headers_mut().insert("retry-after", http::HeaderValue::from_static("1"));
            busy
        }
        87..=88 => status(StatusCode::GONE),
        89..=94 => {
            sleep(lasting(TIMEOUT)).await;
            done(world, package)
        }
        _ => std::future::pending().await,
    }
}

fn done(world: &World, package: &Package) -> Answer {
    let effect = world.ledger.run(package.id());
    let mut answer = status(StatusCode::OK);
    answer.headers_mut().insert("semel-effect", http::HeaderValue::from_static(effect));
    answer
}

/// Takes the job, and settles it later.
fn receive(world: Arc<World>, package: Package) -> Answer {
    let fate = if world.is_calm() { 0 } else { world.hook_roll(0..=99) };
    if fate >= 95 {
        return status(StatusCode::BAD_GATEWAY);
    }
    tokio::spawn(async move {
        let mut line = Line::default();
        let say = match fate {
            0..=69 => Say::Ack,
            70..=79 => {
                sleep(lasting(ACK_TIMEOUT)).await;
                Say::Ack
            }
            80..=86 => Say::Nack,
            87..=91 => Say::Defer,
            // It is never heard of again.
            _ => return,
        };
        sleep(Duration::from_millis(world.hook_roll(5..=1000))).await;
        let effect = if say == Say::Ack { world.ledger.run(package.id()) } else { "none" };
        package.settle(&world, &mut line, say, effect).await;
    });
    status(StatusCode::ACCEPTED)
}

fn status(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::new()));
    *answer.status_mut() = status;
    answer
}
