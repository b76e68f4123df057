//! A client of the server: one connection, kept until it breaks.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;
use turmoil::net::TcpStream;

use crate::net::PORT;

/// How long a client waits for an answer. Longer than a long poll, shorter than most faults.
const PATIENCE: Duration = Duration::from_millis(2500);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a client was told.
#[derive(Debug)]
pub(crate) enum Told {
    /// It is done; the body says more.
    Ok(Bytes),
    /// It is refused, with this code: nothing has changed.
    Refused(String),
    /// Nobody knows: a 5xx, a time-out, a broken connection.
    Unknown(String),
}

/// The part of a problem that clients look at.
#[derive(Debug, Deserialize)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
}

/// A connection to the server.
#[derive(Default)]
pub(crate) struct Line {
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Line {
    /// Posts, and waits for the answer.
    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Told {
        let request = Request::post(path)
            // A server without API keys answers to this name only.
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        match timeout(PATIENCE, self.exchange(request)).await {
            Ok(Ok((status, body))) => told(status, body),
            Ok(Err(error)) => {
                self.sender = None;
                Told::Unknown(error.to_string())
            }
            Err(_) => {
                self.sender = None;
                Told::Unknown("time-out".into())
            }
        }
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), BoxError> {
        if self.sender.as_ref().is_none_or(SendRequest::is_closed) {
            let stream = TcpStream::connect(("server", PORT)).await?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            // How a connection ends is told to whoever has a request on it.
            tokio::spawn(async move { drop(connection.await) });
            self.sender = Some(sender);
        }
        let sender = self.sender.as_mut().unwrap();
        sender.ready().await?;
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok((head.status, body.collect().await?.to_bytes()))
    }
}

fn told(status: StatusCode, body: Bytes) -> Told {
    let code = || serde_json::from_slice(&body).map_or_else(|_| status.to_string(), |p: Problem| p.code);
    if status.is_success() {
        return Told::Ok(body);
    }
    if status.is_client_error() { Told::Refused(code()) } else { Told::Unknown(code()) }
}
