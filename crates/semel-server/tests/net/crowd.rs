//! Too many clients, or too much to do: who cannot be served is told so at once, and served when there is room.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::kit::{Answer, HELLO, connect, on_tcp, within};

/// A large request whose body is never sent.
const LARGE: &str = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn past_the_limit_connections_are_turned_away_until_there_is_room() {
    let (address, _server) = on_tcp(|server| server.limits.max_connections = 2).await;
    let (mut one, mut two) = (connect(address).await, connect(address).await);
    assert_eq!([one.ask(HELLO).await.status(), two.ask(HELLO).await.status()], [200, 200]);
    let mut third = connect(address).await;
    let refused = third.ask(HELLO).await;
    assert_eq!((refused.status(), refused.header("retry-after")), (503, Some("1")));
    assert!(refused.body.contains("\"code\":\"overloaded\""), "{}", refused.body);
    assert!(third.is_closed().await);
    assert_eq!(one.ask(HELLO).await.status(), 200, "those inside do not notice");
    drop(two);
    within(until_served(address)).await;
}

/// Asks until there is room again.
async fn until_served(address: SocketAddr) {
    let served = |answer: Option<Answer>| answer.is_some_and(|answer| answer.status() == 200);
    loop {
        let mut client = connect(address).await;
        client.send(HELLO).await;
        if served(client.answer().await) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_connections_passes() {
    let (address, _server) = on_tcp(|server| server.limits.max_connections = 4).await;
    let mut storm = tokio::task::JoinSet::new();
    for _ in 0..300 {
        storm.spawn(async move {
            let mut client = connect(address).await;
            client.send(HELLO).await;
            client.answer().await.map(|answer| answer.status())
        });
    }
    let answers = within(storm.join_all()).await;
    let odd = answers.iter().flatten().find(|status| ![200, 503].contains(*status));
    assert_eq!(odd, None, "each is served, told to come back, or closed");
    assert!(answers.contains(&Some(200)));
    within(until_served(address)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_shed_before_their_body_is_read_and_reads_are_not() {
    let full = Arc::new(AtomicBool::new(true));
    let is_full = full.clone();
    let shed = move || is_full.load(Ordering::SeqCst).then_some(Duration::from_millis(2500));
    let (address, _server) = on_tcp(|server| server.shed = Arc::new(shed)).await;
    let refused = connect(address).await.ask(LARGE).await;
    assert_eq!((refused.status(), refused.header("retry-after")), (503, Some("3")));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let mut client = connect(address).await;
    assert_eq!(client.ask(HELLO).await.status(), 200);
    let small = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(client.ask(small).await.status(), 503);
    full.store(false, Ordering::SeqCst);
    assert_eq!(client.ask(small).await.body, "abc", "on the same connection");
}
