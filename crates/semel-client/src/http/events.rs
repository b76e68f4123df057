//! A stream of server-sent events, such as that of `/v1/events`.

use std::time::Duration;

use ::http::HeaderValue;
use ::http::header::ACCEPT;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::exchange::{self, Ask};
use super::{Call, Client, Error, Failure};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The longest event that is read. The server's are a hundredth of it; whatever is longer is not the server's.
const EVENT_MAX: usize = 1024 * 1024;

/// How long a stream may be silent. The server says every 15 seconds that it lives, so a stream that says nothing for
/// longer than a few of those has been lost on the way.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Of which kind.
    pub kind: String,
    /// What it says.
    pub data: String,
}

/// Events as they happen.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    parser: Parser,
}

impl Client {
    /// Opens a stream of events. It is opened once: whoever listens on decides what to do when it ends.
    pub async fn events(&self, call: &Call) -> Result<Events, Error> {
        let ask = call.ask(self)?;
        let opened = tokio::time::timeout(self.each(), self.open(&ask)).await;
        let late = |_| Failure::Unanswered(format!("not within {:.1} s", self.each().as_secs_f64()));
        match opened.map_err(late).flatten() {
            Ok(body) => Ok(Events { body, parser: Parser::default() }),
            Err(Failure::Problem(problem)) if !problem.retryable => Err(Error::Refused(problem)),
            Err(last) => Err(Error::Deadline { tries: 1, maybe_done: false, last: Box::new(last) }),
        }
    }

    async fn open(&self, ask: &Ask) -> Result<Incoming, Failure> {
        let mut request = ask.request(self.authorization());
        request.headers_mut().insert(ACCEPT, EVENT_STREAM);
        let (head, body) = self.pool().request(request).await.map_err(|e| exchange::failed(&e))?.into_parts();
        if head.status.is_success() { Ok(body) } else { Err(exchange::problem(&head, body).await) }
    }
}

impl Events {
    /// The next event; `None` when the server has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.parser.next() {
                return Ok(Some(event));
            }
            let heard = tokio::time::timeout(SILENCE_MAX, self.body.frame()).await;
            let Some(frame) = heard.map_err(|_| lost("not a sign of life for a minute".into()))? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| lost(exchange::in_words(&error)))?;
            self.parser.take(&frame.into_data().unwrap_or_default())?;
        }
    }
}

/// A stream that was open, and is no more.
fn lost(words: String) -> Error {
    Error::Deadline { tries: 1, maybe_done: false, last: Box::new(Failure::Unanswered(words)) }
}

/// What has been read of a stream and is not an event yet.
#[derive(Debug, Default)]
struct Parser {
    rest: Vec<u8>,
    /// How much of the rest is known to hold no end of a line.
    looked_at: usize,
    event: Event,
}

impl Parser {
    fn take(&mut self, bytes: &Bytes) -> Result<(), Error> {
        self.rest.extend_from_slice(bytes);
        if self.rest.len() + self.event.data.len() > EVENT_MAX {
            return Err(Error::Answer("an event without an end".into()));
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        while let Some(line) = self.line() {
            if !line.is_empty() {
                self.field(&line);
            } else if !self.event.data.is_empty() {
                return Some(std::mem::take(&mut self.event));
            } else {
                self.event = Event::default();
            }
        }
        None
    }

    fn line(&mut self) -> Option<String> {
        let Some(end) = self.rest[self.looked_at..].iter().position(|byte| *byte == b'\n') else {
            self.looked_at = self.rest.len();
            return None;
        };
        let line: Vec<u8> = self.rest.drain(..=self.looked_at + end).collect();
        self.looked_at = 0;
        Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// A line without a name in front is a comment: it says that the stream lives.
    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.event.kind),
            "data" if self.event.data.is_empty() => value.clone_into(&mut self.event.data),
            "data" => {
                self.event.data.push('\n');
                self.event.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = ":\n\nevent: published\ndata: {\"a\":1}\n\n: still here\n\nevent:missed\r\ndata:1\r\ndata: 2\r\n\r\ndata";
        let expected = [("published", "{\"a\":1}"), ("missed", "1\n2")];
        for size in [1, 3, 7, text.len()] {
            let mut parser = Parser::default();
            let mut seen = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                parser.take(&Bytes::copy_from_slice(piece)).unwrap();
                seen.extend(std::iter::from_fn(|| parser.next()));
            }
            let seen: Vec<_> = seen.iter().map(|event| (event.kind.as_str(), event.data.as_str())).collect();
            assert_eq!(seen, expected, "cut into pieces of {size}");
        }
    }

    #[test]
    fn an_event_without_an_end_is_not_read_for_ever() {
        let mut parser = Parser::default();
        assert!(parser.take(&Bytes::from(vec![b'x'; EVENT_MAX + 1])).is_err());
    }
}
