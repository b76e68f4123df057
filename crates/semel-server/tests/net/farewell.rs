//! How serving ends: nobody new is let in, whoever only sits there is sent home, and whoever is being served is waited for.

use semel_server::net::Drained;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::kit::{HELLO, connect, on_pipes, on_tcp};

const WAIT: &str = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n";

// On one thread, where whoever was woken before has had its turn once this test has given way often enough.
#[tokio::test]
async fn running_requests_are_finished_and_idle_connections_closed() {
    let (address, server) = on_tcp(|_| {}).await;
    let (mut idle, mut silent, mut busy) =
        (connect(address).await, connect(address).await, connect(address).await);
    assert_eq!(idle.ask(HELLO).await.status(), 200);
    busy.send(WAIT).await;
    server.gate.begun().await;
    server.stop();
    assert!(idle.is_closed().await && silent.is_closed().await);
    assert!(TcpStream::connect(address).await.is_err(), "the port is closed");
    // The busy connection hears of the end like the others, but nothing shows it.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    server.gate.open();
    let answer = busy.answer().await.unwrap();
    assert_eq!((answer.status(), answer.body.as_str()), (200, "done"));
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(busy.is_closed().await);
    drop((idle, silent, busy));
    assert_eq!(server.ended().await, Drained { cut: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_end_is_cut_when_the_grace_is_over() {
    let (pipes, server) = on_pipes(|_| {});
    let (mut endless, mut idle) = (pipes.connect(), pipes.connect());
    assert_eq!(idle.ask(HELLO).await.status(), 200);
    endless.send(WAIT).await;
    server.gate.begun().await;
    let start = Instant::now();
    server.stop();
    assert_eq!(server.ended().await, Drained { cut: 1 });
    assert_eq!(start.elapsed().as_secs(), 25);
    assert!(endless.is_closed().await);
}

#[tokio::test(start_paused = true)]
async fn half_a_request_does_not_hold_up_the_end_for_longer_than_a_head_may_take() {
    let (pipes, server) = on_pipes(|_| {});
    let mut client = pipes.connect();
    assert_eq!(client.ask(HELLO).await.status(), 200);
    client.send("GET / HT").await;
    tokio::task::yield_now().await;
    let start = Instant::now();
    server.stop();
    assert_eq!(server.ended().await, Drained { cut: 0 });
    assert!(start.elapsed().as_secs() <= 12, "{:?}", start.elapsed());
}
