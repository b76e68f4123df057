//! One campaign against the real server: a directory, an address, a webhook, a witness, and the way to a verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_proof::checker::{Report, Verdict};
use semel_proof::workload::block_on;
use semel_store::Store;
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

use super::endpoint::{Endpoint, Manner};
use super::http::Client;
use super::pause::{Sign, until};
use super::plan::{Item, Lane, Queue};
use super::process::{Ended, Launch, Server};
use super::publisher::publish;
use super::traffic::{Shared, Traffic};
use super::wire::{Published, unfinished};
use super::witness::Witness;

/// I8: after the fault is healed everything is worked off within this time, by itself.
const DRAINED_WITHIN: Duration = Duration::from_secs(60);
/// I9: with fewer answered operations a run says nothing. A slow machine has to work longer for them.
const ENOUGH: u64 = 1000;
const PUBLISHERS: u64 = 4;
const WORKERS: u64 = 3;

pub(crate) struct Arena {
    home: Option<TempDir>,
    pub(crate) data: PathBuf,
    pub(crate) launch: Launch,
    pub(crate) witness: Arc<Witness>,
    pub(crate) endpoint: Endpoint,
    well: Arc<Sign>,
    seed: u64,
}

impl Arena {
    /// On a disk of the machine.
    pub(crate) fn new(seed: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut arena = Self::at(&home.path().join("store"), seed);
        arena.home = Some(home);
        arena
    }

    /// In a directory of somebody else's.
    pub(crate) fn at(data: &Path, seed: u64) -> Self {
        let (witness, well) = (Arc::new(Witness::new()), Arc::new(Sign::default()));
        let endpoint = Endpoint::start(Manner::Usual, Arc::clone(&witness), Arc::clone(&well));
        Self { home: None, data: data.to_owned(), launch: Launch::new(data), witness, endpoint, well, seed }
    }

    /// With one setting of the server more.
    pub(crate) fn set(mut self, setting: &str) -> Self {
        self.launch = self.launch.set(setting);
        self
    }

    /// Starts the server for the first time, and makes the queues.
    pub(crate) fn open(&self) -> Server {
        let server = self.launch.start();
        Lane::ALL.into_iter().for_each(|lane| self.put(&lane.queue(self.endpoint.address)));
        server
    }

    /// Makes a queue.
    pub(crate) fn put(&self, queue: &Queue) {
        queue.make(&mut self.client(), &self.witness);
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.launch.address)
    }

    /// Publishes one job, and takes it down.
    pub(crate) fn publish(&self, client: &mut Client, item: Item) -> Result<Published, (u16, String)> {
        publish(&self.witness, client, item)
    }

    /// What one more client or worker needs.
    fn shared(&self) -> Shared {
        let door = self.launch.address.into();
        Shared::new(door, self.seed, Arc::clone(&self.witness), Arc::clone(&self.well))
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic::start(self.shared(), PUBLISHERS, WORKERS)
    }

    /// Workers that do everything well, and nobody who publishes.
    pub(crate) fn workers(&self) -> Traffic {
        self.well.give();
        Traffic::start(self.shared(), 0, WORKERS)
    }

    /// Jobs that are not finished, by the counters of the server.
    pub(crate) fn unfinished(&self) -> Option<u64> {
        unfinished(&mut self.client())
    }

    fn finish(&self, server: Server, mut traffic: Traffic, look: impl FnOnce()) -> Report {
        until("enough operations are answered", DRAINED_WITHIN, || {
            (self.witness.oks() >= ENOUGH).then_some(())
        });
        let began = Instant::now();
        traffic.stop_publishing();
        until("everything is drained", DRAINED_WITHIN, || self.unfinished().filter(|left| *left == 0));
        let drained = began.elapsed();
        look();
        traffic.end();
        let ended = server.stop();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
        let report = self.judge(true);
        println!("drained in {} ms: {report}", drained.as_millis());
        report
    }

    /// Lets everything be worked off, stops the server, judges, and everything must hold.
    pub(crate) fn finish_well(&self, server: Server, traffic: Traffic) {
        self.finish_well_after(server, traffic, || {});
    }

    /// The same, with a look at the drained server before it is stopped.
    pub(crate) fn finish_well_after(&self, server: Server, traffic: Traffic, look: impl FnOnce()) {
        let report = self.finish(server, traffic, look);
        assert_eq!(report.verdict(), Verdict::Holds, "SEMEL_SEED={}: {report}", self.seed);
    }

    /// Reads the store of a server that is gone, and judges everything by it.
    pub(crate) fn judge(&self, drained: bool) -> Report {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&self.data, Options::default()).unwrap());
        let evidence = block_on(self.witness.evidence(&store, drained));
        block_on(store.close()).unwrap();
        evidence.unwrap().report()
    }
}

/// Asserts that a process ended with this code, and said this.
pub(crate) fn assert_ended(ended: &Ended, code: i32, said: &str) {
    assert_eq!(ended.status.code(), Some(code), "{}", ended.log);
    assert!(ended.log.contains(said), "{said:?} is missing: {}", ended.log);
}
