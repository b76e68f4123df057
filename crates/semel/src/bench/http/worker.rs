//! A worker that does nothing: a webhook that answers 200 at once, on a thread of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::client::read_head;
use crate::failure::Failure;

const DONE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// What the worker does with the body of a delivery, besides answering.
pub(super) type Look = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A webhook that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) address: SocketAddr,
    handled: Arc<AtomicU64>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(look: Look) -> Result<Self, Failure> {
        let runtime = super::runtime()?;
        let listener =
            runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(Failure::io("listen as a worker"))?;
        let address = listener.local_addr().map_err(Failure::io("ask for our address"))?;
        let handled = Arc::new(AtomicU64::new(0));
        let counter = handled.clone();
        let (end, ended) = oneshot::channel();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, counter, look) => {}
                    // Ended or dropped: the same wish.
                    _ = ended => {}
                }
            });
        });
        Ok(Self { address, handled, end: Some(end), thread: Some(thread) })
    }

    /// Deliveries answered so far.
    pub(super) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A worker that panicked has said so; there is nothing to save here.
            drop(thread.join());
        }
    }
}

async fn accept(listener: TcpListener, handled: Arc<AtomicU64>, look: Look) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, handled.clone(), look.clone()));
    }
}

/// Answers requests until the connection ends.
async fn answer(mut stream: TcpStream, handled: Arc<AtomicU64>, look: Look) {
    drop(stream.set_nodelay(true));
    let mut buffer = Vec::with_capacity(8192);
    loop {
        while let Some((start, length)) =
            read_head(&buffer).filter(|(start, length)| buffer.len() >= start + length)
        {
            look(&buffer[start..start + length]);
            buffer.drain(..start + length);
            handled.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(DONE).await.is_err() {
                return;
            }
        }
        match stream.read_buf(&mut buffer).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
}
