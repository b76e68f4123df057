//! Writes a history as it happens.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use semel_core::time::Timestamp;

use crate::history::{Call, Entry, Op};

/// Takes entries from several threads and writes them out at once: when a call returns, its lines are with the reader.
pub struct Recorder {
    out: Mutex<Box<dyn Write + Send>>,
    next: AtomicU64,
}

impl Recorder {
    /// A recorder that writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Mutex::new(Box::new(out)), next: AtomicU64::new(1) }
    }

    /// A recorder that keeps what it writes, and a handle to read it with.
    pub fn in_memory() -> (Self, Tape) {
        let tape = Tape::default();
        (Self::new(tape.clone()), tape)
    }

    /// Writes down that these calls are about to be made; returns the number of the first, the others follow.
    pub fn invoke<'a>(
        &self,
        at: Timestamp,
        calls: impl ExactSizeIterator<Item = &'a Call>,
    ) -> io::Result<Op> {
        let first = self.next.fetch_add(calls.len() as u64, Ordering::Relaxed);
        let invoked = calls.zip(first..).map(|(call, op)| Entry::Invoke { op, at, call: call.clone() });
        self.write(invoked)?;
        Ok(first)
    }

    /// Writes entries down, together: the lines of another thread come before or after them.
    pub fn write(&self, entries: impl IntoIterator<Item = Entry>) -> io::Result<()> {
        let mut lines = String::new();
        for entry in entries {
            writeln!(lines, "{entry}").expect("a String takes any text");
        }
        let mut out =
            self.out.lock().map_err(|_| io::Error::other("another writer of the history panicked"))?;
        out.write_all(lines.as_bytes())?;
        out.flush()
    }
}

/// What an in-memory recorder wrote.
#[derive(Debug, Clone, Default)]
pub struct Tape(Arc<Mutex<Vec<u8>>>);

impl Tape {
    /// Everything written since it was last taken.
    pub fn take(&self) -> String {
        let mut bytes = self.0.lock().expect("writing to memory does not panic");
        String::from_utf8(std::mem::take(&mut *bytes)).expect("a recorder writes text")
    }
}

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("writing to memory does not panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
