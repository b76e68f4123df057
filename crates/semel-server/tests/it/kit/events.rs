//! The event stream, read as it comes.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A listener of the event stream.
pub(crate) struct Events {
    body: Incoming,
    read: String,
    /// The connection lives as long as this.
    _requests: SendRequest<Empty<Bytes>>,
}

impl Events {
    /// Listens; whatever happens after this is heard.
    pub(crate) async fn listen(address: SocketAddr, path: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut requests, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let request = Request::get(path).header("host", address.to_string()).body(Empty::new()).unwrap();
        let response = requests.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), read: String::new(), _requests: requests }
    }

    /// The next event; `None` when the server has ended the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((message, rest)) = self.read.split_once("\n\n") {
                let data =
                    message.lines().find_map(|line| line.strip_prefix("data: ").map(ToOwned::to_owned));
                let name =
                    message.lines().find_map(|line| line.strip_prefix("event: ").map(ToOwned::to_owned));
                self.read = rest.to_owned();
                if let Some(data) = data {
                    let event: Value = serde_json::from_str(&data).unwrap();
                    assert_eq!(event["type"].as_str(), name.as_deref(), "the name and the type are the same");
                    return Some(event);
                }
            }
            let frame = self.body.frame().await?.ok()?;
            self.read.push_str(std::str::from_utf8(frame.data_ref()?).unwrap());
        }
    }

    /// The next event of this type; others are passed over.
    pub(crate) async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if event["type"] == kind {
                return event;
            }
        }
    }
}
