//! Answers, as they are read.

use std::sync::Mutex;

use bytes::Bytes;
use http::HeaderValue;
use semel_core::outcome::{DeliveryError, Effect, Outcome, Receipt};
use semel_core::payload::Payload;
use semel_core::queue::PushMode;
use semel_core::settle::RESULT_MAX;
use semel_core::time::Timestamp;
use semel_server::delivery::call::Answer;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::network::{LONG, call, local_caller, to};
use crate::worker::{OK, answering, request, worker};

fn json(text: impl Into<Bytes>) -> Option<Payload> {
    Some(Payload::from_json(text).unwrap())
}

async fn answer(bytes: impl Into<Vec<u8>>) -> Answer {
    call(answering(bytes).await, LONG).await.unwrap()
}

fn with_body(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn the_worker_gets_a_post_with_our_headers_and_body_and_nothing_else() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let address = worker(move |mut stream, _| {
        let seen = seen.clone();
        async move {
            seen.send(request(&mut stream).await.unwrap()).unwrap();
            stream.write_all(OK).await.unwrap();
        }
    })
    .await;
    let mut call = to(&format!("http://{address}/jobs?a=b#c"), LONG);
    call.headers.insert("webhook-id", HeaderValue::from_static("job_1"));
    call.headers.insert("host", HeaderValue::from_static("elsewhere"));
    local_caller().call(call).await.unwrap();
    let expected = format!(
        "POST /jobs?a=b HTTP/1.1\r\nwebhook-id: job_1\r\nhost: {address}\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    assert_eq!(requests.recv().await.unwrap(), expected);
}

#[tokio::test]
async fn everything_that_decides_is_read() {
    let headers = "429 Slow\r\nRetry-After: 7\r\nSemel-Retry: no\r\nSemel-Effect: applied";
    let expected = Answer {
        status: 429,
        retry_after: Some("7".to_owned()),
        semel_retry: Some("no".to_owned()),
        semel_effect: Some("applied".to_owned()),
        body: None,
    };
    assert_eq!(answer(with_body(headers, "{}")).await, expected);
}

#[tokio::test]
async fn a_json_body_is_the_result_whatever_its_type_and_framing() {
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\": 1\r\n1\r\n}\r\n0\r\n\r\n";
    let cases = [
        (with_body("200 OK\r\ncontent-type: application/json", "{\"a\": 1}"), json("{\"a\": 1}")),
        (with_body("201 Created\r\ncontent-type: text/plain", "[ ]"), json("[ ]")),
        (chunked.to_owned(), json("{\"a\": 1}")),
        (with_body("200 OK", "done"), None),
        (with_body("200 OK\r\ncontent-type: application/json", "{"), None),
        (with_body("200 OK", ""), None),
        (with_body("500 Oops", "{}"), None),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), None),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1".to_owned(), json("1")),
    ];
    for (bytes, body) in cases {
        assert_eq!(answer(bytes.clone()).await.body, body, "{bytes}");
    }
}

#[tokio::test]
async fn a_body_may_be_as_large_as_a_result_and_a_larger_one_is_not_kept() {
    let limit = format!("\"{}\"", "x".repeat(RESULT_MAX - 2));
    let past = format!("\"{}\"", "x".repeat(RESULT_MAX - 1));
    assert_eq!(answer(with_body("200 OK", &limit)).await.body, json(limit));
    assert_eq!(answer(with_body("200 OK", &past)).await.body, None);
    assert_eq!(answer("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await.body, None);
}

/// Compressed JSON is not unpacked: nobody asked for it, and it could be a bomb.
#[tokio::test]
async fn nothing_is_unpacked() {
    let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 22\r\n\r\n".to_vec();
    bytes.extend(*b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0");
    assert_eq!(answer(bytes).await.body, None);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (elsewhere, connections) = crate::worker::friendly().await;
    let redirect = format!("302 Found\r\nlocation: http://{elsewhere}/");
    let answer = answer(with_body(&redirect, "")).await;
    assert_eq!(answer.status, 302);
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert!(matches!(answer.outcome(PushMode::Standard, Timestamp::from_millis(0)), Outcome::Failed { .. }));
}

#[tokio::test]
async fn an_answer_becomes_an_outcome() {
    let answer = answer(with_body("200 OK\r\nsemel-effect: replayed", "7")).await;
    let now = Timestamp::from_millis(0);
    let effect = Some(Receipt { outcome: Effect::Replayed, key: None });
    assert_eq!(answer.outcome(PushMode::Standard, now), Outcome::Done { result: json("7"), effect });
    assert_eq!(answer.outcome(PushMode::Ack, now), Outcome::Received);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_an_error() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(1_000_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(200));
    for bytes in [long, endless, many] {
        assert_eq!(call(answering(bytes).await, LONG).await, Err(DeliveryError::TooLarge));
    }
}

#[tokio::test]
async fn what_is_not_http_is_a_broken_connection() {
    for bytes in
        ["SSH-2.0-OpenSSH_9.2\r\n\r\n", "\0\0\0\0", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n"]
    {
        let said = call(answering(bytes).await, LONG).await;
        assert!(matches!(said, Err(DeliveryError::Reset(_))), "{bytes:?}: {said:?}");
    }
}

#[tokio::test]
async fn an_old_server_ends_its_answer_by_closing() {
    let address = worker(|mut stream, _| async move {
        request(&mut stream).await;
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n[1, 2]").await.unwrap();
    })
    .await;
    assert_eq!(call(address, LONG).await.unwrap().body, json("[1, 2]"));
}

#[tokio::test]
async fn an_offer_of_another_protocol_is_an_answer_and_ends_the_connection() {
    let address =
        answering("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n").await;
    let caller = local_caller();
    for _ in 0..2 {
        assert_eq!(caller.call(to(&format!("http://{address}/"), LONG)).await.unwrap().status, 101);
    }
}

/// The second one would otherwise be read as the answer to the next delivery.
#[tokio::test]
async fn two_answers_to_one_request_are_not_taken_for_two() {
    let twice = Mutex::new(Some([OK, b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"].concat()));
    let address = worker(move |mut stream, _| {
        let bytes = twice.lock().unwrap().take().unwrap_or_else(|| OK.to_vec());
        async move { while request(&mut stream).await.is_some() && stream.write_all(&bytes).await.is_ok() {} }
    })
    .await;
    let caller = local_caller();
    for _ in 0..3 {
        let answer = caller.call(to(&format!("http://{address}/"), LONG)).await.unwrap();
        assert_eq!(answer.status, 200);
    }
}
