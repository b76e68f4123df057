//! What a person sees who watches a server: a line per request, per delivery, and for what only time brought about.
//!
//! Only dev mode has one, and a server without it does nothing for it. It holds no payload, no query and no header, so
//! nothing that must not be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use semel_core::time::Timestamp;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::news::{Event, Kind};
use crate::stop::Stop;

/// How many lines may wait for the reader. A terminal that is slower than the server misses some, and is told how many: a
/// server does not wait for a terminal.
const LINES_BEHIND: usize = 1024;

/// One thing that a person may want to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it was over.
    pub at: Timestamp,
    /// The method of a request; `push` for a delivery, `event` for what time brought about.
    pub what: String,
    /// The path of a request; the queue, and where its jobs are pushed to.
    pub place: String,
    /// The status that was answered.
    pub status: Option<u16>,
    /// How long it took.
    pub took: Option<Duration>,
    /// What it meant.
    pub gloss: Option<Gloss>,
}

/// What something meant, in few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gloss {
    /// Of which kind it is.
    pub tone: Tone,
    /// The words.
    pub words: String,
}

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A job was published.
    Made,
    /// A publish was answered with an earlier job: neither a success nor a failure.
    Duplicate,
    /// The same, with another payload.
    Collision,
    /// A job went out to a worker, or was settled.
    Work,
    /// Something was refused, or failed.
    Trouble,
}

impl Gloss {
    /// These words, of this kind.
    pub fn new(tone: Tone, words: impl Into<String>) -> Self {
        Self { tone, words: words.into() }
    }
}

/// Takes lines. Clones write to the same reader.
#[derive(Debug, Clone)]
pub struct Journal {
    lines: SyncSender<Line>,
    missed: Arc<AtomicU64>,
}

/// Reads lines as they come.
#[derive(Debug)]
pub struct Reader {
    lines: Receiver<Line>,
    missed: Arc<AtomicU64>,
}

/// A journal and its reader.
pub fn open() -> (Journal, Reader) {
    let (sender, lines) = sync_channel(LINES_BEHIND);
    let missed = Arc::new(AtomicU64::new(0));
    (Journal { lines: sender, missed: missed.clone() }, Reader { lines, missed })
}

impl Journal {
    /// Writes a line, unless the reader is too far behind.
    pub fn note(&self, line: Line) {
        if self.lines.try_send(line).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what happens without a request, until it is time to stop.
    pub(crate) async fn follow(self, mut events: broadcast::Receiver<Event>, stop: Stop) {
        loop {
            let heard = tokio::select! {
                heard = events.recv() => heard,
                () = stop.stopped() => return,
            };
            match heard {
                Ok(event) => self.tell(&event),
                Err(RecvError::Lagged(missed)) => {
                    self.missed.fetch_add(missed, Ordering::Relaxed);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Most events come of a request or a delivery, which have a line already.
    fn tell(&self, event: &Event) {
        let job = event.job.map(|job| job.to_string()).unwrap_or_default();
        let detail = event.detail.clone().unwrap_or_default();
        let gloss = match event.kind {
            Kind::Expired => Gloss::new(Tone::Trouble, format!("the lease of {job} ran out")),
            Kind::PersistentDuplicate => Gloss::new(Tone::Duplicate, format!("{job}: {detail}")),
            Kind::LeaseAdvice => Gloss::new(Tone::Trouble, detail),
            _ => return,
        };
        let place = event.queue.as_ref().map(ToString::to_string).unwrap_or_default();
        let at = event.at;
        self.note(Line { at, what: "event".into(), place, status: None, took: None, gloss: Some(gloss) });
    }
}

impl Reader {
    /// Waits for the next line; with it comes how many were missed before it. `None` when nobody writes any more.
    pub fn next(&self) -> Option<(u64, Line)> {
        let line = self.lines.recv().ok()?;
        Some((self.missed.swap(0, Ordering::Relaxed), line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(place: usize) -> Line {
        let at = Timestamp::from_millis(0);
        Line { at, what: "GET".into(), place: place.to_string(), status: None, took: None, gloss: None }
    }

    #[test]
    fn a_reader_that_is_too_slow_is_told_how_much_it_missed() {
        let (journal, reader) = open();
        (0..LINES_BEHIND + 3).for_each(|n| journal.note(line(n)));
        let read: Vec<_> = std::iter::repeat_with(|| reader.next()).take(LINES_BEHIND).flatten().collect();
        assert_eq!(read[0], (3, line(0)), "those that did not fit are counted");
        assert_eq!((read.len(), &read[LINES_BEHIND - 1]), (LINES_BEHIND, &(0, line(LINES_BEHIND - 1))));
        drop(journal);
        assert_eq!(reader.next(), None);
    }
}
