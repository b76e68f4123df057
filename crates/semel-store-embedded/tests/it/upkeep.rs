//! What a store does about its own growth: expiry in slices, runs dropped and shrunk, memory that stays put.

use std::sync::Arc;

use semel_core::key::Key;
use semel_core::lease::LeaseRequest;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::{QueueConfig, Retention};
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Clock, Command, ManualClock, Reply, Store};
use semel_store_embedded::check::check;
use semel_store_embedded::inspect::inspect;
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

const HOUR: Millis = Millis::from_hours(1);

fn queue() -> QueueName {
    QueueName::try_from("q").unwrap()
}

fn publish(n: u64) -> Command {
    let payload = Payload::from_json(n.to_string()).unwrap();
    Command::Publish(
        Draft::new(queue(), payload).with_key(Key::try_from(format!("k{n}")).unwrap()).check().unwrap(),
    )
}

fn options(clock: &Arc<ManualClock>) -> Options {
    let clock: Arc<dyn Clock> = clock.clone();
    Options { clock, reserve_bytes: 0, run_keys: 8192, ..Options::default() }
}

struct Shop {
    store: EmbeddedStore,
    clock: Arc<ManualClock>,
    dir: TempDir,
}

impl Shop {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let dir = TempDir::new().unwrap();
        let store = EmbeddedStore::open(dir.path(), options(&clock)).unwrap();
        let retention = Retention { completed: HOUR, dead: HOUR, archive: false };
        let config = QueueConfig { window: HOUR, retention, ..QueueConfig::default() };
        store.apply(vec![Command::PutQueue { name: queue(), config: Box::new(config) }]).await.unwrap();
        Self { store, clock, dir }
    }

    /// The same directory in a new process, as after a crash.
    fn reopened(self) -> Self {
        let Self { store, clock, dir } = self;
        store.abandon();
        let store = EmbeddedStore::open(dir.path(), options(&clock)).unwrap();
        Self { store, clock, dir }
    }

    async fn publish(&self, from: u64, n: u64) {
        for start in (from..from + n).step_by(1000) {
            let batch = (start..(start + 1000).min(from + n)).map(publish).collect();
            self.store.apply(batch).await.unwrap();
        }
    }

    async fn work_all(&self) {
        loop {
            let deliveries = self.store.lease(LeaseRequest::new(queue(), 256, None).unwrap()).await.unwrap();
            if deliveries.is_empty() {
                return;
            }
            let done = || Outcome::Done { result: None, effect: None };
            let settle = |d: &semel_core::lease::Delivery| {
                Command::Settle(Settle::new(d.id, Some(d.token), done(), Report::default()).unwrap())
            };
            self.store.apply(deliveries.iter().map(settle).collect()).await.unwrap();
        }
    }

    /// Prunes in slices until a pass over everything has ended, and returns how many jobs each slice dropped.
    async fn prune(&self) -> Vec<u32> {
        let mut slices = Vec::new();
        loop {
            match self.store.apply(vec![Command::Prune { limit: 512 }]).await.unwrap().remove(0).unwrap() {
                Reply::Pruned { dropped, more, .. } => {
                    slices.push(dropped);
                    if !more {
                        return slices;
                    }
                }
                other => panic!("a prune was answered {other:?}"),
            }
        }
    }

    async fn close_and_check(self) {
        self.store.close().await.unwrap();
        drop(self.store);
        let report = check(self.dir.path(), &mut |_| {}).unwrap();
        assert!(report.is_sound(), "{:#?}", report.findings);
    }
}

#[tokio::test]
async fn expiry_goes_in_slices_and_takes_whole_runs_with_it() {
    let shop = Shop::new().await;
    shop.publish(0, 40_000).await;
    shop.work_all().await;
    assert!(inspect(shop.dir.path()).unwrap().key_runs > 0);
    assert_eq!(shop.prune().await.iter().sum::<u32>(), 0, "nothing is old yet");
    // A second more than an hour: forty thousand ids in one millisecond run ten milliseconds ahead of the clock.
    shop.clock.advance(HOUR.plus(Millis::from_secs(1)));
    let slices = shop.prune().await;
    assert_eq!(slices.iter().sum::<u32>(), 40_000);
    assert!(slices.iter().all(|&dropped| dropped <= 512), "no slice is a sweep");
    shop.publish(50_000, 1).await;
    shop.store.close().await.unwrap();
    assert!(inspect(shop.dir.path()).unwrap().key_runs <= 1, "runs of expired keys are unlinked");
    shop.close_and_check().await;
}

#[tokio::test]
async fn young_jobs_cost_a_prune_nothing() {
    let shop = Shop::new().await;
    shop.publish(0, 4_000).await;
    shop.work_all().await;
    assert_eq!(shop.prune().await.len(), 1, "nothing can have expired, so nothing is looked at");
}

#[tokio::test]
async fn a_job_that_was_sealed_finished_and_pruned_does_not_haunt_its_queue() {
    let shop = Shop::new().await;
    shop.publish(0, 10).await;
    // Closing seals the backlog: the next process inherits a list of all ten.
    shop.store.close().await.unwrap();
    let shop = shop.reopened();
    let first = shop.store.lease(LeaseRequest::new(queue(), 3, None).unwrap()).await.unwrap();
    for delivery in &first {
        let done = Outcome::Done { result: None, effect: None };
        let settle = Settle::new(delivery.id, Some(delivery.token), done, Report::default()).unwrap();
        shop.store.apply(vec![Command::Settle(settle)]).await.unwrap().remove(0).unwrap();
    }
    shop.clock.advance(HOUR.plus(Millis::from_secs(1)));
    assert_eq!(shop.prune().await.iter().sum::<u32>(), 3);
    let shop = shop.reopened();
    let rest = shop.store.lease(LeaseRequest::new(queue(), 256, None).unwrap()).await.unwrap();
    assert_eq!(rest.len(), 7);
    assert!(rest.iter().all(|d| first.iter().all(|f| f.id != d.id)));
    shop.close_and_check().await;
}

#[tokio::test]
async fn one_job_that_never_ends_does_not_keep_the_index_large() {
    let shop = Shop::new().await;
    let mut first = Draft::new(queue(), Payload::from_json("1").unwrap());
    first.key = Some(Key::try_from("the-one").unwrap());
    first.delay = Some(Millis::from_days(300));
    shop.store.apply(vec![Command::Publish(first.check().unwrap())]).await.unwrap();
    shop.publish(0, 60_000).await;
    shop.work_all().await;
    let before = inspect(shop.dir.path()).unwrap().key_bytes;
    // A second more than an hour: forty thousand ids in one millisecond run ten milliseconds ahead of the clock.
    shop.clock.advance(HOUR.plus(Millis::from_secs(1)));
    // The scan runs on a thread of its own and is taken in by a later pass: prune until it has been, within reason.
    let mut after = before;
    for _ in 0..2_000 {
        shop.prune().await;
        after = inspect(shop.dir.path()).unwrap().key_bytes;
        if after < before / 4 {
            break;
        }
    }
    assert!(after < before / 4, "the runs still have {after} of {before} bytes");
    let key = Key::try_from("the-one").unwrap();
    assert!(shop.store.key(&queue(), &key).await.unwrap().unwrap().holds, "what must live on lives on");
    shop.close_and_check().await;
}
