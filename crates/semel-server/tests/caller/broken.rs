//! Workers that refuse, break, drip or never end (faults 33 to 35).

use std::time::Duration;

use bytes::Bytes;
use semel_core::outcome::DeliveryError;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::network::{LONG, SHORT, call, local_caller, to};
use crate::worker::{OK, answering, hung_up, request, worker};

/// A worker that sends these bytes and then resets the connection.
async fn resetting_after(bytes: &'static [u8]) -> std::net::SocketAddr {
    worker(move |mut stream, _| async move {
        request(&mut stream).await;
        stream.write_all(bytes).await.unwrap();
        stream.set_zero_linger().unwrap();
    })
    .await
}

/// Writes a byte every few milliseconds until the caller hangs up.
async fn drip(stream: &mut TcpStream, byte: u8) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while stream.write_all(&[byte]).await.is_ok() {
        ticks.tick().await;
    }
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let said = call(address, LONG).await;
    assert!(matches!(said, Err(DeliveryError::Refused(_))), "{said:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_end_is_a_reset() {
    for bytes in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
    ] {
        let said = call(resetting_after(bytes).await, LONG).await;
        assert!(matches!(said, Err(DeliveryError::Reset(_))), "{:?}: {said:?}", Bytes::from_static(bytes));
    }
}

#[tokio::test]
async fn a_connection_that_closes_before_the_end_is_a_reset_too() {
    for bytes in [&b""[..], b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"] {
        let address = worker(move |mut stream, _| async move {
            request(&mut stream).await;
            stream.write_all(bytes).await.unwrap();
        })
        .await;
        let said = call(address, LONG).await;
        assert!(matches!(said, Err(DeliveryError::Reset(_))), "{:?}: {said:?}", Bytes::from_static(bytes));
    }
}

#[tokio::test]
async fn a_refusal_stands_even_if_its_body_breaks() {
    let address = resetting_after(b"HTTP/1.1 410 Gone\r\ncontent-length: 10\r\n\r\n{").await;
    assert_eq!(call(address, LONG).await.unwrap().status, 410);
}

#[tokio::test]
async fn a_worker_that_never_answers_times_out_and_is_hung_up_on() {
    let (over, mut hung) = mpsc::unbounded_channel();
    let address = worker(move |mut stream, _| {
        let over = over.clone();
        async move {
            hung_up(&mut stream).await;
            over.send(()).unwrap();
        }
    })
    .await;
    assert_eq!(call(address, SHORT).await, Err(DeliveryError::Timeout));
    hung.recv().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_reads_nothing_times_out_and_is_hung_up_on() {
    let (over, mut hung) = mpsc::unbounded_channel();
    let (read_on, go) = tokio::sync::watch::channel(());
    let address = worker(move |mut stream, _| {
        let (over, mut go) = (over.clone(), go.clone());
        async move {
            go.changed().await.unwrap();
            hung_up(&mut stream).await;
            over.send(()).unwrap();
        }
    })
    .await;
    // More than the buffers of two sockets hold, so that the request is still being written when the time is over.
    let mut call = to(&format!("http://{address}/"), SHORT);
    call.body = vec![b' '; 32 << 20].into();
    assert_eq!(local_caller().call(call).await, Err(DeliveryError::Timeout));
    read_on.send(()).unwrap();
    hung.recv().await.unwrap();
}

#[tokio::test]
async fn one_byte_at_a_time_does_not_outlive_the_deadline() {
    for (start, byte) in [
        (&b"HTTP/1.1 200 OK\r\nx: "[..], b'x'),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n", b' '),
        (b"HTTP/1.1 200 OK\r\n\r\n", b' '),
    ] {
        let (over, mut hung) = mpsc::unbounded_channel();
        let address = worker(move |mut stream, _| {
            let over = over.clone();
            async move {
                request(&mut stream).await;
                stream.write_all(start).await.unwrap();
                drip(&mut stream, byte).await;
                over.send(()).unwrap();
            }
        })
        .await;
        assert_eq!(call(address, SHORT).await, Err(DeliveryError::Timeout));
        hung.recv().await.unwrap();
    }
}

#[tokio::test]
async fn an_endless_body_is_cut_and_its_answer_counts() {
    let (over, mut hung) = mpsc::unbounded_channel();
    let address = worker(move |mut stream, _| {
        let over = over.clone();
        async move {
            request(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            while stream.write_all(&[b' '; 4096]).await.is_ok() {}
            over.send(()).unwrap();
        }
    })
    .await;
    let answer = call(address, LONG).await.unwrap();
    assert_eq!((answer.status, answer.body), (200, None));
    hung.recv().await.unwrap();
}

#[tokio::test]
async fn a_refusal_stands_even_if_its_body_never_ends() {
    let address = worker(|mut stream, _| async move {
        request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 503 Busy\r\nretry-after: 9\r\n\r\n").await.unwrap();
        drip(&mut stream, b' ').await;
    })
    .await;
    let answer = call(address, Duration::from_millis(500)).await.unwrap();
    assert_eq!((answer.status, answer.retry_after.as_deref()), (503, Some("9")));
}

#[tokio::test]
async fn endless_informational_answers_time_out() {
    let address = worker(|mut stream, _| async move {
        request(&mut stream).await;
        while stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(call(address, SHORT).await, Err(DeliveryError::Timeout));
}

/// What comes after the time-out belongs to a delivery that is over, and must not be read as the answer to the next one.
#[tokio::test]
async fn an_answer_after_the_time_out_is_nobodys() {
    let (late, go) = tokio::sync::watch::channel(());
    let address = worker(move |mut stream, number| {
        let mut go = go.clone();
        async move {
            request(&mut stream).await;
            if number == 0 {
                go.changed().await.unwrap();
                drop(stream.write_all(b"HTTP/1.1 500 Late\r\ncontent-length: 0\r\n\r\n").await);
            } else {
                stream.write_all(OK).await.unwrap();
            }
        }
    })
    .await;
    let (caller, url) = (local_caller(), format!("http://{address}/"));
    assert_eq!(caller.call(to(&url, SHORT)).await, Err(DeliveryError::Timeout));
    late.send(()).unwrap();
    assert_eq!(caller.call(to(&url, LONG)).await.unwrap().status, 200);
}

#[tokio::test]
async fn one_slow_worker_does_not_hold_up_another() {
    let slow = worker(|mut stream, _| async move { hung_up(&mut stream).await }).await;
    let quick = answering(OK).await;
    let caller = local_caller();
    let waiting = caller.call(to(&format!("http://{slow}/"), LONG));
    let answered = caller.call(to(&format!("http://{quick}/"), LONG));
    tokio::select! {
        biased;
        said = waiting => panic!("{said:?}"),
        said = answered => assert_eq!(said.unwrap().status, 200),
    }
}
