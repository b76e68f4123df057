//! This node's place on the list of nodes, which it may lose and take anew.

use std::sync::{Arc, Mutex, MutexGuard};

/// The number of this node, and when it joined: what tells its row from that of a later node with its number.
#[derive(Debug, Clone)]
pub(crate) struct Seat(Arc<Mutex<(i32, i64)>>);

impl Seat {
    pub(crate) fn new(node: i32, joined_at: i64) -> Self {
        Self(Arc::new(Mutex::new((node, joined_at))))
    }

    pub(crate) fn node(&self) -> i32 {
        self.lock().0
    }

    pub(super) fn get(&self) -> (i32, i64) {
        *self.lock()
    }

    pub(crate) fn change(&self, node: i32, joined_at: i64) {
        *self.lock() = (node, joined_at);
    }

    fn lock(&self) -> MutexGuard<'_, (i32, i64)> {
        self.0.lock().expect("the lock is never held across a panic")
    }
}
