//! HTTP/2 without TLS, by clients that know we speak it, and by those that abuse it.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::Frame;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::kit::{HELLO, connect, on_pipes, on_tcp, within};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET / http`, from the table every HTTP/2 endpoint knows.
const GET_ROOT: [u8; 3] = [0x82, 0x84, 0x86];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("frames here are small").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The kinds of the frames in what a server sent, and the error of its farewell.
fn frames(mut bytes: &[u8]) -> (Vec<u8>, Option<u32>) {
    let (mut kinds, mut error) = (Vec::new(), None);
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        kinds.push(*kind);
        if *kind == GOAWAY {
            error = rest.get(4..8).map(|code| u32::from_be_bytes(code.try_into().expect("four bytes")));
        }
        bytes = rest.get(length..).unwrap_or_default();
    }
    (kinds, error)
}

pub(crate) async fn http2<S>(stream: S) -> SendRequest<Body>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) =
        within(handshake(TokioExecutor::new(), TokioIo::new(stream))).await.expect("HTTP/2");
    // Its errors are those of the requests on it.
    tokio::spawn(async move { drop(connection.await) });
    client
}

pub(crate) async fn ask(client: &mut SendRequest<Body>, request: Request<Body>) -> (u16, Bytes) {
    let answer = within(client.send_request(request)).await.expect("an answer");
    assert_eq!(answer.version(), Version::HTTP_2);
    let status = answer.status().as_u16();
    (status, within(answer.into_body().collect()).await.expect("a body").to_bytes())
}

pub(crate) fn hello() -> Request<Body> {
    Request::get("http://x/").body(Body::empty()).expect("a request")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_side_by_side_on_one_connection() {
    let (address, server) = on_tcp(|_| {}).await;
    let mut client = http2(TcpStream::connect(address).await.unwrap()).await;
    let mut second = client.clone();
    let waiting = tokio::spawn(async move {
        ask(&mut second, Request::get("http://x/wait").body(Body::empty()).unwrap()).await
    });
    server.gate.begun().await;
    assert_eq!(ask(&mut client, hello()).await, (200, "ok".into()));
    let echo = Request::post("http://x/echo").body(Body::from("abc")).unwrap();
    assert_eq!(ask(&mut client, echo).await, (200, "abc".into()));
    server.gate.open();
    assert_eq!(waiting.await.unwrap(), (200, "done".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_request_is_finished_when_the_server_stops() {
    let (address, server) = on_tcp(|_| {}).await;
    let mut client = http2(TcpStream::connect(address).await.unwrap()).await;
    let waiting = tokio::spawn(async move {
        ask(&mut client, Request::get("http://x/wait").body(Body::empty()).unwrap()).await
    });
    server.gate.begun().await;
    server.stop();
    server.gate.open();
    assert_eq!(waiting.await.unwrap(), (200, "done".into()));
    assert_eq!(server.ended().await.cut, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_after_the_preface_ends_the_connection_and_nothing_else() {
    let (address, _server) = on_tcp(|_| {}).await;
    let unexpected = frame(DATA, 0, 1, b"data of nothing");
    for garbage in [b"\xff".repeat(64), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), unexpected, vec![0; 9]]
    {
        let mut client = connect(address).await;
        client.send([PREFACE, &garbage].concat()).await;
        client.rest().await;
        assert_eq!(connect(address).await.ask(HELLO).await.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_end_the_connection() {
    let (address, _server) = on_tcp(|_| {}).await;
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for stream in (1..4001).step_by(2) {
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &GET_ROOT));
        bytes.extend(frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
    }
    let mut client = connect(address).await;
    client.send(bytes).await;
    let (kinds, error) = frames(&client.rest().await);
    const ENHANCE_YOUR_CALM: u32 = 0xb;
    assert_eq!(error, Some(ENHANCE_YOUR_CALM), "{kinds:?}");
    assert_eq!(connect(address).await.ask(HELLO).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_continuations_ends_the_connection() {
    let (address, _server) = on_tcp(|_| {}).await;
    let mut client = connect(address).await;
    client
        .send([PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_STREAM, 1, &GET_ROOT)].concat())
        .await;
    // A header without a name in the table: literal, `x: y`.
    let more = frame(CONTINUATION, 0, 1, &[0x00, 1, b'x', 1, b'y']);
    let mut sent = 0;
    while client.send(more.repeat(100)).await && sent < 1_000_000 {
        sent += 100;
    }
    assert!(sent < 1_000_000, "nobody stopped it");
    client.rest().await;
    assert_eq!(connect(address).await.ask(HELLO).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_fails_alone() {
    let (pipes, _server) = on_pipes(|_| {});
    let mut client = http2(pipes.connect().into_stream()).await;
    let never = futures_util::stream::pending::<Result<Frame<Bytes>, std::io::Error>>();
    let body = Body::new(http_body_util::StreamBody::new(never));
    let start = Instant::now();
    let (status, _) = ask(&mut client, Request::post("http://x/echo").body(body).unwrap()).await;
    assert!((400..500).contains(&status), "{status}");
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(ask(&mut client, hello()).await.0, 200, "the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_told_that_it_ends() {
    let (pipes, _server) = on_pipes(|server| server.limits.http2.ping = Duration::from_secs(3600));
    let mut client = pipes.connect();
    client.send([PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await;
    let start = Instant::now();
    let (kinds, error) = frames(&client.rest().await);
    assert_eq!(error, Some(0), "{kinds:?}");
    // It is told after 75 seconds, and cut ten seconds later if it does not answer.
    assert_eq!(start.elapsed().as_secs(), 85);
}
