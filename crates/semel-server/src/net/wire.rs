//! A stream whose first bytes were read to see what it speaks, and which tells the pulse what moves.
//!
//! An answer lets other connections run once before it is written. Answers come together, those of one commit: so all of them are
//! made, and then all are written, instead of each in turn. The processor finds the code of the one and of the other in its caches,
//! and a client with many connections is woken once, not for each of them. With 64 connections that is 3 to 5 % more publishes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::listener::Stream;
use super::pulse::Pulse;

/// A connection as hyper reads and writes it.
pub(super) struct Wire<S> {
    stream: S,
    /// What was read already.
    read: Bytes,
    pulse: Arc<Pulse>,
    /// Whether something was asked, and others have not run since.
    asked: bool,
}

impl<S: Stream> Wire<S> {
    /// A stream of which `read` has been read.
    pub(super) fn new(stream: S, read: Bytes, pulse: Arc<Pulse>) -> Self {
        Self { stream, read, pulse, asked: false }
    }

    /// Lets whoever else is ready run before the first write of an answer.
    fn wait_for_others(&mut self, cx: &Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.asked) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// The stream itself.
    pub(super) fn into_stream(self) -> S {
        self.stream
    }
}

impl<S: Stream> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = if self.read.is_empty() {
            Pin::new(&mut self.stream).poll_read(cx, buf)
        } else {
            let n = self.read.len().min(buf.remaining());
            buf.put_slice(&self.read[..n]);
            self.read.advance(n);
            Poll::Ready(Ok(()))
        };
        if buf.filled().len() > before {
            self.pulse.received();
            self.asked = true;
        }
        polled
    }
}

impl<S: Stream> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.wait_for_others(cx));
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.pulse.wrote(polled.is_ready());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.wait_for_others(cx));
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.pulse.wrote(polled.is_ready());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.pulse.wrote(polled.is_ready());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.pulse.wrote(polled.is_ready());
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use futures_util::task::noop_waker;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::net::pulse::Speech;

    #[tokio::test]
    async fn the_first_write_of_an_answer_waits_until_others_have_run_and_the_rest_does_not() {
        let (mut client, stream) = duplex(64);
        let mut wire = Wire::new(stream, Bytes::from_static(b"ask"), Arc::new(Pulse::new(Speech::Http1)));
        for asked in [b"ask", b"two"] {
            let mut read = [0; 3];
            wire.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, asked);
            let mut write = |bytes: &'static [u8]| {
                pin!(wire.write(bytes)).poll(&mut Context::from_waker(&noop_waker())).is_ready()
            };
            assert!(!write(b"answer"), "others first");
            assert!(write(b"answer") && write(b"s"), "nothing was asked in between");
            client.write_all(b"two").await.unwrap();
        }
        let mut answers = [0; 14];
        client.read_exact(&mut answers).await.unwrap();
        assert_eq!(&answers, b"answersanswers");
    }

    #[tokio::test]
    async fn whoever_waits_for_others_is_woken() {
        let (_client, stream) = duplex(64);
        let mut wire = Wire::new(stream, Bytes::from_static(b"ask"), Arc::new(Pulse::new(Speech::Http1)));
        wire.read_u8().await.unwrap();
        let mut looks = 0;
        let wrote = poll_fn(|cx| {
            looks += 1;
            Pin::new(&mut wire).poll_write_vectored(cx, &[IoSlice::new(b"answer")])
        });
        assert_eq!((wrote.await.unwrap(), looks), (6, 2));
    }
}
