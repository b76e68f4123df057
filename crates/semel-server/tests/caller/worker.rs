//! Workers made of bare sockets, because what a real server would never send is what matters here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A short answer that leaves the connection open.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue";

/// A worker that handles each connection with the given function, which also gets the connection's number.
pub(crate) async fn worker<F, R>(handle: F) -> SocketAddr
where
    F: Fn(TcpStream, usize) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            tokio::spawn(handle(listener.accept().await.unwrap().0, number));
        }
    });
    address
}

/// A worker that reads one request per connection, sends these bytes, and then waits until the caller hangs up.
pub(crate) async fn answering(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = Arc::new(bytes.into());
    worker(move |mut stream, _| {
        let bytes = bytes.clone();
        async move {
            request(&mut stream).await;
            // The caller may hang up before it has read everything.
            drop(stream.write_all(&bytes).await);
            hung_up(&mut stream).await;
        }
    })
    .await
}

/// A worker that answers [`OK`] to every request, and counts its connections.
pub(crate) async fn friendly() -> (SocketAddr, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = connections.clone();
    let address = worker(move |mut stream, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { serve(&mut stream).await }
    })
    .await;
    (address, connections)
}

/// Answers [`OK`] to every request of a connection.
pub(crate) async fn serve(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    while request(stream).await.is_some() {
        stream.write_all(OK).await.unwrap();
        stream.flush().await.unwrap();
    }
}

/// Reads a request to its end; `None` if the caller hung up.
pub(crate) async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut text = Vec::new();
    while !is_whole(&text) {
        text.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(text).unwrap())
}

fn is_whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// Waits until the caller has closed the connection.
pub(crate) async fn hung_up(stream: &mut TcpStream) {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await.is_ok_and(|n| n > 0) {}
}
