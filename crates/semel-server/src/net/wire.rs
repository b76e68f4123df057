//! A stream whose first bytes were read to see what it speaks, and which tells the pulse what moves.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
}

impl<S: Stream> Wire<S> {
    /// A stream of which `read` has been read.
    pub(super) fn new(stream: S, read: Bytes, pulse: Arc<Pulse>) -> Self {
        Self { stream, read, pulse }
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
        }
        polled
    }
}

impl<S: Stream> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.pulse.wrote(polled.is_ready());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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
