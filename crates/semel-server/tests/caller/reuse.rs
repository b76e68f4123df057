//! Connections that are used again, and those that must not be.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use semel_core::outcome::DeliveryError;
use semel_server::delivery::call::{Caller, CallerOptions};
use semel_server::delivery::dial::{Dial, Stream, TcpDial};
use semel_server::delivery::guard::Guard;
use semel_server::delivery::resolve::SystemResolver;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::{Barrier, mpsc};

use crate::network::{LONG, Pipes, caller, local_caller, to};
use crate::worker::{OK, friendly, hung_up, request, worker};

#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let (address, connections) = friendly().await;
    let caller = local_caller();
    for path in 0..50 {
        let answer = caller.clone().call(to(&format!("http://{address}/{path}"), LONG)).await.unwrap();
        assert_eq!(answer.status, 200);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn calls_at_the_same_time_have_connections_of_their_own_and_some_are_kept() {
    let (address, connections) = friendly_together(4).await;
    let options = CallerOptions {
        guard: Guard::open_to_loopback(),
        resolver: Arc::new(SystemResolver),
        dial: Arc::new(TcpDial),
        extra_ca: None,
        idle_per_host: 1,
    };
    let caller = Caller::new(options).unwrap();
    for _ in 0..2 {
        let calls = (0..4).map(|_| caller.call(to(&format!("http://{address}/"), LONG)));
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer.unwrap().status, 200);
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 4 + 3, "one of four was kept");
}

/// A worker that answers when this many requests are there, so that they must be on connections of their own.
async fn friendly_together(n: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let (connections, barrier) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(n)));
    let counter = connections.clone();
    let address = worker(move |mut stream, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        let barrier = barrier.clone();
        async move {
            while request(&mut stream).await.is_some() {
                barrier.wait().await;
                stream.write_all(OK).await.unwrap();
            }
        }
    })
    .await;
    (address, connections)
}

/// Answers the next request, on a connection made for it, and returns the worker's end. It cannot fail: the result is for
/// `try_join`, so that a call that fails ends the test.
async fn answer_next(
    workers: &mut mpsc::UnboundedReceiver<DuplexStream>,
) -> Result<DuplexStream, DeliveryError> {
    let mut end = workers.recv().await.unwrap();
    request(&mut end).await.unwrap();
    end.write_all(OK).await.unwrap();
    Ok(end)
}

/// Waits until the caller has closed its end. Time stands still in the tests that use this, so waiting costs none.
async fn assert_hung_up(end: &mut DuplexStream) {
    let over = tokio::time::timeout(LONG, async { while request(end).await.is_some() {} }).await;
    over.expect("the caller hangs up");
}

/// The worker closes while the connection lies idle. The caller may have noticed before the next call or notice only when
/// it is about to write: either way not a byte of the request was sent, and it goes out on a new connection.
#[tokio::test]
async fn a_kept_connection_that_the_worker_closed_costs_nothing() {
    for turns_to_notice in [0, 1, 10] {
        let (pipes, mut workers) = Pipes::new();
        let caller = caller(Guard::open_to_loopback(), &Arc::default(), pipes);
        let call = || caller.call(to("http://127.0.0.1/", LONG));
        let (first, end) = tokio::try_join!(call(), answer_next(&mut workers)).unwrap();
        drop(end);
        for _ in 0..turns_to_notice {
            tokio::task::yield_now().await;
        }
        let (second, _end) = tokio::try_join!(call(), answer_next(&mut workers)).unwrap();
        assert_eq!((first.status, second.status), (200, 200));
    }
}

/// The worker has seen the request and died. Whether it did the work nobody knows; sending again is not ours to decide.
#[tokio::test]
async fn a_request_that_was_read_is_never_sent_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = requests.clone();
    let address = worker(move |mut stream, _| {
        let counter = counter.clone();
        async move {
            request(&mut stream).await;
            stream.write_all(OK).await.unwrap();
            if request(&mut stream).await.is_some() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }
    })
    .await;
    let (caller, url) = (local_caller(), format!("http://{address}/"));
    assert_eq!(caller.call(to(&url, LONG)).await.unwrap().status, 200);
    let second = caller.call(to(&url, LONG)).await;
    assert!(matches!(second, Err(DeliveryError::Reset(_))), "{second:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn unused_connections_are_closed_without_another_call() {
    let (pipes, mut workers) = Pipes::new();
    let caller = caller(Guard::open_to_loopback(), &Arc::default(), pipes);
    for _ in 0..2 {
        let call = caller.call(to("http://127.0.0.1/", LONG));
        let (said, mut end) = tokio::try_join!(call, answer_next(&mut workers)).unwrap();
        assert_eq!(said.status, 200);
        assert_hung_up(&mut end).await;
    }
}

#[tokio::test]
async fn a_call_that_is_broken_off_hangs_up() {
    let (over, mut hung) = mpsc::unbounded_channel();
    let (seen, mut is_seen) = mpsc::unbounded_channel();
    let address = worker(move |mut stream, _| {
        let (over, seen) = (over.clone(), seen.clone());
        async move {
            request(&mut stream).await;
            seen.send(()).unwrap();
            hung_up(&mut stream).await;
            over.send(()).unwrap();
        }
    })
    .await;
    let caller = local_caller();
    tokio::select! {
        said = caller.call(to(&format!("http://{address}/"), LONG)) => panic!("{said:?}"),
        _ = is_seen.recv() => {}
    }
    hung.recv().await.unwrap();
}

/// A connection that never finishes closing: TLS, say, whose last words do not fit into the buffers of a worker that has
/// stopped reading.
struct Clinging(Box<dyn Stream>);

impl AsyncRead for Clinging {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl AsyncWrite for Clinging {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

struct ClingingPipes(Arc<Pipes>);

#[async_trait]
impl Dial for ClingingPipes {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(Clinging(self.0.dial(address).await?)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_will_not_close_is_dropped() {
    let (pipes, mut workers) = Pipes::new();
    let caller = caller(Guard::open_to_loopback(), &Arc::default(), Arc::new(ClingingPipes(pipes)));
    assert_eq!(caller.call(to("http://127.0.0.1/", LONG)).await, Err(DeliveryError::Timeout));
    assert_hung_up(&mut workers.recv().await.unwrap()).await;
}
