//! Publishers and workers on threads of their own, for as long as a fault lasts and until everything is drained.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use semel_proof::dice::Dice;

use super::http::Door;
use super::pause::Sign;
use super::publisher::Publisher;
use super::witness::Witness;
use super::worker::Worker;

/// What publishers and workers share.
pub(crate) struct Shared {
    pub(crate) door: Door,
    pub(crate) seed: u64,
    pub(crate) witness: Arc<Witness>,
    /// Nothing new is published, and work is done well.
    pub(crate) stop: Arc<Sign>,
    /// Everybody ends.
    pub(crate) abandon: Sign,
    next: AtomicU64,
    /// Whether jobs are called off now and then.
    pub(crate) cancels: bool,
}

impl Shared {
    pub(crate) fn new(door: Door, seed: u64, witness: Arc<Witness>, stop: Arc<Sign>) -> Self {
        let (abandon, next) = (Sign::default(), AtomicU64::new(1));
        Self { door, seed, witness, stop, abandon, next, cancels: true }
    }

    pub(crate) fn new_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A number that was given out before, mostly a recent one: it is most likely to be still unfinished.
    pub(crate) fn known_number(&self, dice: &mut Dice) -> u64 {
        let known = self.next.load(Ordering::Relaxed).max(2);
        if dice.chance(50) {
            dice.within(known.saturating_sub(50).max(1)..=known - 1)
        } else {
            dice.within(1..=known - 1)
        }
    }
}

/// Threads at work.
pub(crate) struct Traffic {
    shared: Arc<Shared>,
    publishers: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub(crate) fn start(shared: Shared, publishers: u64, workers: u64) -> Self {
        let shared = Arc::new(shared);
        let publishers = (1..=publishers).map(|number| {
            let publisher = Publisher::new(Arc::clone(&shared), number);
            std::thread::spawn(move || publisher.run())
        });
        let publishers = publishers.collect();
        let workers = (0..workers).map(|number| {
            let worker = Worker::new(Arc::clone(&shared), number + 1);
            std::thread::spawn(move || worker.run())
        });
        let workers = workers.collect();
        Self { shared, publishers, workers }
    }

    /// Ends the publishers, once they know what became of everything they published with a key.
    pub(crate) fn stop_publishing(&mut self) {
        self.shared.stop.give();
        self.publishers.drain(..).for_each(|thread| thread.join().unwrap());
    }

    /// Ends everybody.
    pub(crate) fn end(mut self) {
        self.shared.stop.give();
        self.shared.abandon.give();
        for thread in self.publishers.drain(..).chain(self.workers.drain(..)) {
            thread.join().unwrap();
        }
    }
}

impl Drop for Traffic {
    /// A test that failed must not go on.
    fn drop(&mut self) {
        self.shared.stop.give();
        self.shared.abandon.give();
    }
}
