//! Bytes that are not HTTP, or not quite: an answer that says so, or none, and a server that goes on.

use crate::kit::{HELLO, connect, on_tcp};

/// What is to become of bytes.
enum Fate {
    /// Answered with this status, and then the connection ends.
    Refused(u16),
    /// Answered with these statuses, and the connection stays.
    Answered(&'static [u16]),
}

use Fate::{Answered, Refused};

fn post(headers: &str, body: &str) -> Vec<u8> {
    format!("POST /echo HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}").into_bytes()
}

fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").into_bytes()
}

fn request_lines() -> Vec<(&'static str, Vec<u8>, Fate)> {
    vec![
        ("a line of nothing", b"  \r\n\r\n".to_vec(), Refused(400)),
        ("words", b"hello, is there anybody?\r\n\r\n".to_vec(), Refused(400)),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), Refused(400)),
        ("NUL bytes", vec![0; 64], Refused(400)),
        ("a method that is none", b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), Refused(400)),
        ("a method nobody knows", b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), Answered(&[405])),
        ("a version that is none", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n".to_vec(), Refused(400)),
        ("no version", b"GET /\r\n\r\n".to_vec(), Refused(400)),
        ("half a preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(), Refused(400)),
        ("empty lines before a request", format!("\r\n\r\n{HELLO}").into_bytes(), Answered(&[200])),
        ("a path with %00", get("/%00", ""), Answered(&[404])),
        ("a path that climbs", get("/../../etc/passwd", ""), Answered(&[404])),
        ("a path that climbs in disguise", get("/%2e%2e/%2e%2e/etc/passwd", ""), Answered(&[404])),
        ("a path of 8 KB", get(&format!("/{}", "a".repeat(8192)), ""), Answered(&[404])),
        ("a path of 70 KB", get(&format!("/{}", "a".repeat(70_000)), ""), Refused(431)),
        ("a space in the path", get("/a b", ""), Refused(400)),
    ]
}

fn headers() -> Vec<(&'static str, Vec<u8>, Fate)> {
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let enough: String = (0..98).map(|n| format!("x-{n}: 1\r\n")).collect();
    vec![
        ("200 headers", get("/", &many), Refused(431)),
        ("99 headers", get("/", &enough), Answered(&[200])),
        ("a header of 64 KB", get("/", &format!("x: {}\r\n", "a".repeat(65_536))), Refused(431)),
        ("a header of 60 KB", get("/", &format!("x: {}\r\n", "a".repeat(60_000))), Answered(&[200])),
        ("NUL in a header", get("/", "x: a\0b\r\n"), Refused(400)),
        ("a folded header", get("/", "x: a\r\n b\r\n"), Refused(400)),
        ("a header without a colon", get("/", "x\r\n"), Refused(400)),
        ("a header without a name", get("/", ": a\r\n"), Refused(400)),
        ("a space before the colon", get("/", "x : a\r\n"), Refused(400)),
    ]
}

fn bodies() -> Vec<(&'static str, Vec<u8>, Fate)> {
    let chunked = "Transfer-Encoding: chunked\r\n";
    let extension = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(20_000));
    let trailers = format!("0\r\nx: {}\r\n\r\n", "a".repeat(70_000));
    vec![
        ("a length that is too small", post("Content-Length: 3\r\n", "abcdef\r\n\r\n"), Refused(200)),
        ("a length that is no number", post("Content-Length: many\r\n", "abc"), Refused(400)),
        ("a negative length", post("Content-Length: -1\r\n", "abc"), Refused(400)),
        ("a length with a sign", post("Content-Length: +3\r\n", "abc"), Refused(400)),
        ("a length past all range", post("Content-Length: 99999999999999999999\r\n", "abc"), Refused(400)),
        ("two lengths", post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), Refused(400)),
        ("an encoding that is none", post("Transfer-Encoding: gzip\r\n", "abc"), Refused(400)),
        (
            "chunked, and then something else",
            post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"),
            Refused(400),
        ),
        ("a chunk without a size", post(chunked, "zz\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        ("a chunk past all range", post(chunked, "ffffffffffffffffff\r\nabc\r\n"), Refused(400)),
        ("a chunk that is longer than it says", post(chunked, "1\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        ("a huge chunk extension", post(chunked, &extension), Refused(400)),
        ("huge trailers", post(chunked, &trailers), Refused(400)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_is_refused_and_the_server_goes_on() {
    let (address, _server) = on_tcp(|_| {}).await;
    for (what, bytes, fate) in request_lines().into_iter().chain(headers()).chain(bodies()) {
        let mut client = connect(address).await;
        client.send(bytes).await;
        match fate {
            Refused(status) => {
                let answer = client.answer().await.unwrap_or_else(|| panic!("{what}: no answer"));
                assert_eq!(answer.status(), status, "{what}");
                let rest = String::from_utf8(client.rest().await).unwrap();
                assert!(!rest.contains(" 200 "), "{what}: more was answered: {rest}");
            }
            Answered(statuses) => {
                for status in statuses {
                    let answer = client.answer().await.unwrap_or_else(|| panic!("{what}: no answer"));
                    assert_eq!(answer.status(), *status, "{what}");
                }
                assert_eq!(
                    client.ask(HELLO).await.status(),
                    200,
                    "{what}: the connection is usable afterwards"
                );
            }
        }
        assert_eq!(connect(address).await.ask(HELLO).await.status(), 200, "after {what}");
    }
}

/// The body ends where the last chunk says, whatever the length says, and the connection ends with it: what comes behind
/// is the body's rest to one reader and a request to another, so that nobody may take it for either.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_cannot_be_smuggled_in_a_body_with_two_ends() {
    let (address, _server) = on_tcp(|_| {}).await;
    let body = format!("3\r\nabc\r\n0\r\n\r\n{HELLO}");
    let length = format!("Content-Length: {}\r\n", body.len());
    let chunked = "Transfer-Encoding: chunked\r\n";
    for headers in
        [format!("{length}{chunked}"), format!("{chunked}{length}"), format!("{chunked}{chunked}{length}")]
    {
        let mut client = connect(address).await;
        let answer = client.ask(post(&headers, &body)).await;
        assert_eq!((answer.status(), answer.body.as_str()), (200, "abc"), "{headers}");
        assert!(client.is_closed().await, "what was hidden is not answered: {headers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_1_0_is_answered_and_closed() {
    let (address, _server) = on_tcp(|_| {}).await;
    let mut client = connect(address).await;
    assert_eq!(client.ask("GET / HTTP/1.0\r\n\r\n").await.body, "ok");
    assert!(client.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let (address, _server) = on_tcp(|_| {}).await;
    let mut client = connect(address).await;
    let second = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    client.send(format!("{HELLO}{second}GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n{HELLO}")).await;
    let mut answers = Vec::new();
    for _ in 0..4 {
        let answer = client.answer().await.unwrap();
        answers.push((answer.status(), answer.body));
    }
    assert_eq!(answers.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 200, 404, 200]);
    assert_eq!((answers[0].1.as_str(), answers[1].1.as_str()), ("ok", "abc"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_knows_its_peer() {
    let (address, _server) = on_tcp(|_| {}).await;
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let ours = stream.local_addr().unwrap().to_string();
    let mut client = crate::kit::Client::new(stream);
    for _ in 0..2 {
        assert_eq!(client.ask(get("/peer", "")).await.body, ours);
    }
}
