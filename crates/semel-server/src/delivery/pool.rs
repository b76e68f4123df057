//! Connections that wait for the next delivery.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::connect::Connection;
use super::endpoint::Origin;

/// How long a connection is kept unused. It must be shorter than the patience of the server at the other end: a request
/// that crosses its close is an attempt burned for nothing. Gunicorn has two seconds, Node.js and uvicorn five.
const IDLE_MAX: Duration = Duration::from_millis(1500);

/// Free connections, by what they lead to.
pub(super) struct Pool {
    shelves: Mutex<Shelves>,
    per_origin: usize,
}

#[derive(Default)]
struct Shelves {
    /// Of each origin in the order they were put back, so the last is the freshest.
    free: HashMap<Arc<Origin>, Vec<Free>>,
    /// Whether a sweeper runs. It ends when there is nothing left to sweep.
    swept: bool,
}

struct Free {
    connection: Connection,
    since: Instant,
}

impl Free {
    fn is_usable(&self, now: Instant) -> bool {
        self.connection.is_free() && now.duration_since(self.since) < IDLE_MAX
    }
}

impl Pool {
    pub(super) fn new(per_origin: usize) -> Arc<Self> {
        Arc::new(Self { shelves: Mutex::default(), per_origin })
    }

    /// The freshest free connection, so that those a lower load does not need grow old and go.
    pub(super) fn take(&self, origin: &Origin) -> Option<Connection> {
        let now = Instant::now();
        let mut shelves = self.shelves();
        let shelf = shelves.free.get_mut(origin)?;
        while let Some(free) = shelf.pop() {
            if free.is_usable(now) {
                return Some(free.connection);
            }
        }
        None
    }

    /// Keeps a free connection, unless there are enough.
    pub(super) fn put(self: &Arc<Self>, origin: &Arc<Origin>, connection: Connection) {
        let mut shelves = self.shelves();
        let shelf = match shelves.free.get_mut(origin) {
            Some(shelf) => shelf,
            None => shelves.free.entry(origin.clone()).or_default(),
        };
        if shelf.len() < self.per_origin {
            shelf.push(Free { connection, since: Instant::now() });
        }
        if !std::mem::replace(&mut shelves.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Drops what is dead or too old, and says whether anything is left.
    fn sweep(&self) -> bool {
        let now = Instant::now();
        let mut shelves = self.shelves();
        shelves.free.retain(|_, shelf| {
            shelf.retain(|free| free.is_usable(now));
            !shelf.is_empty()
        });
        shelves.swept = !shelves.free.is_empty();
        shelves.swept
    }

    /// Nothing that holds this lock can leave the shelves half changed, so a panic elsewhere does not matter here.
    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes what nobody asked for any more. Without it an endpoint that is never called again would keep its descriptors.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_MAX).await;
        match pool.upgrade() {
            Some(pool) if pool.sweep() => {}
            _ => return,
        }
    }
}
