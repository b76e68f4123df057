//! One connection, from its first byte to its last.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};

use super::accept::Door;
use super::body::AnswerBody;
use super::listener::Stream;
use super::pulse::{Phase, Pulse, Speech};
use super::service::service;
use super::watch::Watch;
use super::wire::Wire;
use super::{refusal, tls};

/// What a client begins with that knows we speak HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Most bytes hyper gathers of one connection. Its own limit is six times as much, for clients we do not have.
const BUFFER: usize = 128 * 1024;

/// Data of one HTTP/2 connection that may be on its way to us, unread.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// The same for one request of it: a payload of the default size fits.
const STREAM_WINDOW: u32 = 512 * 1024;

/// Looks after a connection until it ends. How it ends concerns nobody but its client: errors are for debugging.
pub(super) async fn run<S: Stream>(stream: S, peer: SocketAddr, door: Arc<Door>) {
    let guest = Guest { peer, start: Instant::now(), door: door.clone() };
    let by = guest.start + door.server.limits.header_timeout;
    let Some(tls) = &door.server.tls else { return guest.greet(stream, by).await };
    tokio::select! {
        biased;
        () = door.closing.wait() => {}
        shaken = timeout_at(by, tls.acceptor.accept(stream)) => match shaken {
            Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(tls::H2) => {
                guest.speak_http2(stream, Bytes::new()).await;
            }
            Ok(Ok(stream)) => guest.greet(stream, by).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }
}

/// A connection that was let in.
struct Guest {
    peer: SocketAddr,
    start: Instant,
    door: Arc<Door>,
}

impl Guest {
    /// Reads the first bytes, to see which HTTP is spoken. A guest that says nothing is let go.
    async fn greet<S: Stream>(self, mut stream: S, by: Instant) {
        let first = tokio::select! {
            biased;
            () = self.door.closing.wait() => return,
            first = timeout_at(by, first_bytes(&mut stream)) => first,
        };
        match first {
            Ok(Ok(read)) if read.is_empty() => {}
            Ok(Ok(read)) if *read == *PREFACE => self.speak_http2(stream, read).await,
            Ok(Ok(read)) => self.speak_http1(stream, read).await,
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "connection broke"),
            Err(_) => tracing::debug!(peer = %self.peer, "nothing was asked"),
        }
    }

    async fn speak_http1<S: Stream>(self, stream: S, read: Bytes) {
        let pulse = Arc::new(Pulse::new(Speech::Http1));
        let service = service(self.door.clone(), self.peer, pulse.clone());
        let wire = TokioIo::new(Wire::new(stream, read, pulse.clone()));
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // The watch does this, for less.
            .header_read_timeout(None)
            .max_header_size(self.door.server.limits.max_header_bytes)
            .max_buf_size(BUFFER.max(self.door.server.limits.max_header_bytes))
            .serve_connection(wire, service);
        let ended = self.drive(Pin::new(&mut connection), &pulse).await;
        let stream = connection.into_parts().io.into_inner().into_stream();
        match ended {
            None => refusal::let_go(stream).await,
            Some(Phase::Head) => refusal::slow_head(stream).await,
            Some(Phase::Body) => refusal::slow_body(stream).await,
            Some(Phase::Idle | Phase::Busy | Phase::Stalled) => {}
        }
    }

    async fn speak_http2<S: Stream>(self, stream: S, read: Bytes) {
        let limits = self.door.server.limits;
        let pulse = Arc::new(Pulse::new(Speech::Http2));
        let service = service(self.door.clone(), self.peer, pulse.clone());
        let wire = TokioIo::new(Wire::new(stream, read, pulse.clone()));
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.http2.max_streams)
            .max_pending_accept_reset_streams(limits.http2.max_pending_resets)
            .max_local_error_reset_streams(limits.http2.max_error_resets)
            .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .keep_alive_interval(limits.http2.ping)
            .keep_alive_timeout(limits.http2.ping)
            .serve_connection(wire, service);
        self.drive(pin!(connection), &pulse).await;
    }

    /// Lets a connection run, and says what was waited for if that took too long.
    ///
    /// An idle connection is asked to end before it is cut, so that a request that is just coming in is answered.
    async fn drive<C: Connection>(&self, mut connection: Pin<&mut C>, pulse: &Pulse) -> Option<Phase> {
        let mut watch = Watch::new(self.door.server.limits, self.start);
        let mut closing = pin!(self.door.closing.wait());
        // The task has one waker, so that one look is enough to be woken; afterwards the flag tells.
        let (mut in_line, mut ending) = (false, false);
        poll_fn(|cx| {
            let close =
                if in_line { self.door.closing.is_set() } else { closing.as_mut().poll(cx).is_ready() };
            in_line = true;
            if close && !ending {
                ending = true;
                connection.as_mut().end();
                watch.hurry();
            }
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                    self.note(ended);
                    return Poll::Ready(None);
                }
                match watch.poll(cx, pulse) {
                    Poll::Ready(Phase::Idle) if !ending => {
                        ending = true;
                        connection.as_mut().end();
                        watch.hurry();
                    }
                    Poll::Ready(phase) => {
                        tracing::debug!(peer = %self.peer, ?phase, "waited too long");
                        return Poll::Ready(Some(phase));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    fn note(&self, ended: hyper::Result<()>) {
        if let Err(error) = ended {
            tracing::debug!(peer = %self.peer, %error, "connection broke");
        }
    }
}

/// Reads until it is clear whether this is the preface of HTTP/2: at most as many bytes as that has.
async fn first_bytes<S: Stream>(stream: &mut S) -> std::io::Result<Bytes> {
    let mut read = BytesMut::with_capacity(PREFACE.len());
    while read.len() < PREFACE.len() && PREFACE.starts_with(&read) {
        let left = PREFACE.len() - read.len();
        if stream.take(u64::try_from(left).unwrap_or(0)).read_buf(&mut read).await? == 0 {
            break;
        }
    }
    Ok(read.freeze())
}

/// What HTTP/1 and HTTP/2 connections have in common.
trait Connection: Future<Output = hyper::Result<()>> {
    /// Lets what is running finish, and then ends.
    fn end(self: Pin<&mut Self>);
}

impl<S, V> Connection for http1::Connection<TokioIo<Wire<S>>, V>
where
    S: Stream,
    V: HttpService<hyper::body::Incoming, ResBody = AnswerBody, Error = std::convert::Infallible>,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<S, V> Connection for http2::Connection<TokioIo<Wire<S>>, V, TokioExecutor>
where
    S: Stream,
    V: HttpService<
            hyper::body::Incoming,
            ResBody = AnswerBody,
            Error = std::convert::Infallible,
            Future: Send + 'static,
        >,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
