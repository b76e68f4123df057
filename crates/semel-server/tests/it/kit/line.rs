//! One connection, used for one request after another: a bad request must leave it usable.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::Answer;

/// A connection of its own. It does not reconnect, so a server that closes it is found out.
pub(crate) struct Line {
    requests: SendRequest<Full<Bytes>>,
    host: String,
}

impl Line {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (requests, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        // It ends when either side has closed it; how, the next request shows.
        tokio::spawn(async move { drop(connection.await) });
        Self { requests, host: address.to_string() }
    }

    /// Any request, as JSON unless the headers say otherwise. A header `host` takes the place of the usual one.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let has = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in [("host", self.host.as_str()), ("content-type", "application/json")] {
            if !has(name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.requests.ready().await.expect("the connection is still usable");
        let (parts, body) = self.requests.send_request(request).await.unwrap().into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status: parts.status, headers: parts.headers, text, json }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }
}
