//! What the network does at the moment, and to whom.

use std::{
    net::TcpListener,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::net::{Shutdown, shutdown};

use super::{pump::Connection, trap::Trap};

/// What is to be done to bytes and connections.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) delay: Duration,
    /// By the side that sends.
    pub(super) held: [bool; 2],
    pub(super) refuse: bool,
    pub(super) trap: Option<Trap>,
    /// Whether the last trap has done its work.
    pub(super) sprung: bool,
    /// Where new connections are accepted, if they are.
    pub(super) listener: Option<Arc<TcpListener>>,
    /// The proxy is being dropped.
    pub(super) ended: bool,
}

/// The rules, who waits for them to change, and the connections they are for.
#[derive(Debug)]
pub(super) struct Network {
    rules: Mutex<Rules>,
    changed: Condvar,
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl Default for Network {
    fn default() -> Self {
        let rules = Rules {
            delay: Duration::ZERO,
            held: [false; 2],
            refuse: false,
            trap: None,
            sprung: false,
            listener: None,
            ended: false,
        };
        Self { rules: Mutex::new(rules), changed: Condvar::new(), connections: Mutex::default() }
    }
}

impl Network {
    /// Changes the rules, and tells everybody who waits.
    pub(super) fn change(&self, change: impl FnOnce(&mut Rules)) {
        self.with(change);
        self.changed.notify_all();
    }

    /// Looks at the rules, or changes what nobody waits for.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Rules) -> T) -> T {
        look(&mut self.rules())
    }

    /// Waits for a condition; `false` if time is up first.
    pub(super) fn wait(&self, limit: Duration, mut condition: impl FnMut(&Rules) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.rules(), limit, |rules| !condition(rules));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Waits until new connections are to be accepted; `false` if that will not be any more.
    pub(super) fn wait_to_listen(&self) -> bool {
        let waited = self.changed.wait_while(self.rules(), |rules| rules.refuse && !rules.ended);
        !waited.unwrap_or_else(PoisonError::into_inner).ended
    }

    /// Waits until something that was read at this time from this side may be passed on; `false` if its connection
    /// was closed meanwhile.
    pub(super) fn wait_for_passage(&self, connection: &Connection, side: usize, read_at: Instant) -> bool {
        let mut rules = self.rules();
        while !connection.is_closed() {
            let late = Instant::now().saturating_duration_since(read_at);
            rules = if rules.held[side] {
                self.changed.wait(rules).unwrap_or_else(PoisonError::into_inner)
            } else if late < rules.delay {
                let rest = rules.delay - late;
                self.changed.wait_timeout(rules, rest).unwrap_or_else(PoisonError::into_inner).0
            } else {
                return true;
            };
        }
        false
    }

    /// Accepts here, unless that was forbidden meanwhile.
    pub(super) fn listen(&self, listener: TcpListener) {
        self.change(|rules| {
            if !rules.refuse && !rules.ended {
                rules.listener = Some(Arc::new(listener));
            }
        });
    }

    pub(super) fn listener(&self) -> Option<Arc<TcpListener>> {
        self.with(|rules| rules.listener.clone())
    }

    /// Refuses from now on, and wakes the thread that accepts.
    pub(super) fn stop_listening(&self) {
        if let Some(listener) = self.with(|rules| rules.listener.take())
            && let Err(error) = shutdown(&*listener, Shutdown::Both)
        {
            eprintln!("semel-cluster: a proxy goes on listening: {error}");
        }
    }

    pub(super) fn enter(&self, connection: Arc<Connection>) {
        self.list().push(connection);
    }

    pub(super) fn leave(&self, connection: &Arc<Connection>) {
        self.list().retain(|other| !Arc::ptr_eq(other, connection));
    }

    pub(super) fn cut(&self) -> usize {
        let connections = std::mem::take(&mut *self.list());
        connections.iter().for_each(|connection| connection.close());
        // Those that wait for the rules to change are to see that their connection is gone.
        self.change(|_| ());
        connections.len()
    }

    pub(super) fn count(&self) -> usize {
        self.list().len()
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
