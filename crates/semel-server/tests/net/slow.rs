//! Clients that take their time, on the test's clock: whatever they hold up, they are let go when the limit says.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::kit::{HELLO, Pipes, on_pipes};

const SECOND: Duration = Duration::from_secs(1);

/// Sends a byte a second until the server hangs up, and says what it answered and when.
async fn drip(pipes: &Pipes, before: &str, bytes: impl Iterator<Item = u8>) -> (Option<u16>, Duration) {
    let mut client = pipes.connect();
    let start = Instant::now();
    client.send(before).await;
    for byte in bytes {
        sleep(SECOND).await;
        if !client.send([byte]).await || start.elapsed() > 300 * SECOND {
            break;
        }
    }
    let answer = client.answer().await;
    (answer.map(|answer| answer.status()), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_byte_by_byte_is_cut_off_at_the_limit() {
    let (pipes, server) = on_pipes(|_| {});
    let endless = || std::iter::once(b'x').cycle();
    for first in ["", "G", "GET / HTTP/1.1\r\nx: "] {
        let (status, after) = drip(&pipes, first, endless()).await;
        assert!(matches!(status, Some(400 | 408)), "{first:?}: {status:?}");
        // A lingering end takes a second more.
        assert!(after <= 12 * SECOND, "{first:?} was held for {after:?}");
    }
    let (status, after) = drip(&pipes, "GET / HTTP/1.1\r\nx: ", endless()).await;
    assert_eq!(status, Some(408));
    assert!(after >= 10 * SECOND, "{after:?}");
    server.stop();
    assert_eq!(server.ended().await.cut, 0);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_slowly_but_in_time_is_served() {
    let (pipes, _server) = on_pipes(|_| {});
    let mut client = pipes.connect();
    for part in ["GET / HTTP/1.1\r\n", "Host: x\r\n", "\r\n"] {
        sleep(3 * SECOND).await;
        client.send(part).await;
    }
    assert_eq!(client.answer().await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_limit_on_heads_holds_for_later_requests_too() {
    let (pipes, _server) = on_pipes(|_| {});
    let mut client = pipes.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(HELLO).await.status(), 200);
        sleep(50 * SECOND).await;
    }
    let start = Instant::now();
    client.send("GET / HTTP").await;
    assert_eq!(client.answer().await.unwrap().status(), 408);
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_body_has_one_deadline_however_often_a_byte_comes() {
    let (pipes, _server) = on_pipes(|_| {});
    let head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    let (status, after) = drip(&pipes, head, std::iter::once(b'x').cycle()).await;
    assert_eq!(status, Some(408));
    assert!((30..=32).contains(&after.as_secs()), "{after:?}");
    let chunked = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (status, after) = drip(&pipes, chunked, b"1\r\nx\r\n".iter().copied().cycle()).await;
    assert_eq!(status, Some(408));
    assert!((30..=32).contains(&after.as_secs()), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_length_that_is_too_large_ends_in_a_408_with_a_code() {
    let (pipes, _server) = on_pipes(|_| {});
    let mut client = pipes.connect();
    let answer = client.ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc").await;
    assert_eq!(answer.status(), 408);
    assert!(answer.body.contains("\"code\":\"body_timeout\""), "{}", answer.body);
    assert!(client.is_closed().await);
}

#[tokio::test(start_paused = true)]
async fn silence_is_ended_before_and_after_the_first_request() {
    let (pipes, _server) = on_pipes(|_| {});
    let start = Instant::now();
    assert!(pipes.connect().is_closed().await);
    assert_eq!(start.elapsed().as_secs(), 10);
    let mut client = pipes.connect();
    assert_eq!(client.ask(HELLO).await.status(), 200);
    let start = Instant::now();
    assert!(client.is_closed().await);
    assert_eq!(start.elapsed().as_secs(), 75);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_being_answered_has_all_the_time_it_needs() {
    let (pipes, server) = on_pipes(|_| {});
    let mut client = pipes.connect();
    client.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").await;
    server.gate.begun().await;
    sleep(500 * SECOND).await;
    server.gate.open();
    assert_eq!(client.answer().await.unwrap().body, "done");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_taken_is_not_kept_for_ever() {
    let (pipes, server) = on_pipes(|server| server.limits.max_connections = 1);
    let mut lazy = pipes.connect();
    lazy.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    sleep(29 * SECOND).await;
    assert_eq!(pipes.connect().ask(HELLO).await.status(), 503, "it still holds its place");
    sleep(2 * SECOND).await;
    assert_eq!(pipes.connect().ask(HELLO).await.status(), 200, "it has been let go");
    server.stop();
    assert_eq!(server.ended().await.cut, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_refused_while_it_sends_can_finish_and_read_why() {
    let (pipes, _server) = on_pipes(|_| {});
    let mut client = pipes.connect();
    let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(200_000));
    assert!(
        client.send(head).await,
        "a connection that is closed with bytes unread is reset, and the answer lost"
    );
    assert_eq!(client.answer().await.unwrap().status(), 431);
}
