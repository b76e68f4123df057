//! What a simulation is made of, and what of it outlives a crash.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use semel_core::ids::{JobId, Token};
use semel_proof::dice::{Dice, mixed};
use semel_proof::history::{Delivered, Entry};
use semel_store::{MemoryStore, Store};

use crate::clock::SimClock;
use crate::flaw::Flaw;
use crate::journal::Journal;
use crate::lanes::Lane;
use crate::ledger::Ledger;

/// Everything that no crash takes: disks, databases, and those who watch.
pub(crate) struct World {
    /// The disk of the server.
    pub(crate) store: Arc<MemoryStore>,
    /// The database of the workers.
    pub(crate) ledger: Ledger,
    /// What everybody saw.
    pub(crate) journal: Arc<Journal>,
    /// What is wrong on purpose.
    pub(crate) flaw: Flaw,
    /// How the disk behaves.
    pub(crate) disk_dice: Mutex<Dice>,
    hook_dice: Mutex<Dice>,
    seed: u64,
    calm: AtomicBool,
    sent: Mutex<HashMap<(JobId, Token), Delivered>>,
    complaints: Mutex<Vec<String>>,
}

impl World {
    /// A world in which nothing has happened but the making of its queues.
    pub(crate) fn new(seed: u64, flaw: Flaw) -> Arc<Self> {
        let clock = Arc::new(SimClock::default());
        let journal = Journal::new(clock.clone());
        let store = Arc::new(MemoryStore::new(clock));
        let queues = Lane::ALL.into_iter().flat_map(|lane| [lane.put(), lane.put_secret()]);
        let made = at_once(store.apply(queues.collect())).unwrap();
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        Lane::ALL.into_iter().for_each(|lane| journal.note(Entry::Queue(lane.promise())));
        Arc::new(Self {
            store,
            ledger: Ledger::new(flaw != Flaw::NoLedger),
            journal,
            flaw,
            disk_dice: Mutex::new(dice(seed, 1)),
            hook_dice: Mutex::new(dice(seed, 2)),
            seed,
            calm: AtomicBool::new(false),
            sent: Mutex::default(),
            complaints: Mutex::default(),
        })
    }

    /// Dice for one of the hosts.
    pub(crate) fn dice(&self, host: u64) -> Dice {
        dice(self.seed, 100 + host)
    }

    /// A roll of the webhook's dice.
    pub(crate) fn hook_roll(&self, range: RangeInclusive<u64>) -> u64 {
        self.hook_dice.lock().unwrap().within(range)
    }

    /// From here on nothing goes wrong any more, and nothing new is begun.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// Notes what the server is about to send to a webhook.
    pub(crate) fn sent(&self, all: &[Delivered]) {
        let mut sent = self.sent.lock().unwrap();
        sent.extend(all.iter().map(|delivered| ((delivered.id, delivered.token), delivered.clone())));
    }

    /// Notes what a webhook got: it must be what was leased for it, to the letter.
    pub(crate) fn received(&self, delivered: &Delivered) {
        let sent = self.sent.lock().unwrap().get(&(delivered.id, delivered.token)).cloned();
        if sent.as_ref() != Some(delivered) {
            self.complain(format!("I2: a webhook got {delivered:?}, and leased was {sent:?}"));
        }
    }

    /// Notes something that must not be.
    pub(crate) fn complain(&self, what: String) {
        self.complaints.lock().unwrap().push(what);
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap().clone()
    }

    /// Jobs that are not finished.
    pub(crate) fn unfinished(&self) -> u64 {
        let stats = at_once(self.store.stats()).unwrap();
        stats.queues.iter().map(semel_store::QueueStats::unfinished).sum()
    }
}

/// The outcome of a call of the memory store, which never waits.
pub(crate) fn at_once<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().unwrap()
}

fn dice(seed: u64, purpose: u64) -> Dice {
    Dice::new(mixed(mixed(seed) ^ purpose))
}
