//! Several nodes at once on one database: what each does alone still holds when others do the same in the same moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use semel_cluster::Database;
use semel_core::breaker::BreakerConfig;
use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::{Group, QueueName};
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::retention::Retention;
use semel_core::settle::{Report, Settle};
use semel_core::time::Millis;
use semel_store::{Answer, Command, JobQuery, Reply, Store};
use semel_store_postgres::{Options, PostgresStore};
use tokio::runtime::{Builder, Runtime};

use crate::harness::database;

/// Three nodes. The database's clock is theirs.
struct Nodes {
    stores: Vec<Arc<PostgresStore>>,
    runtime: Runtime,
    _database: Database<'static>,
}

fn queue() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

impl Nodes {
    fn new(config: QueueConfig) -> Self {
        let database = database();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let stores = runtime.block_on(async {
            let mut stores = Vec::new();
            for _ in 0..3 {
                let options = Options { connections: 8, days_ahead: 0, ..Options::default() };
                stores.push(Arc::new(PostgresStore::open(database.url(), options).await.unwrap()));
            }
            put(&*stores[0], config).await;
            stores
        });
        Self { stores, runtime, _database: database }
    }

    /// Runs `n` tasks, spread over the nodes, and returns what they returned.
    fn at_once<F>(&self, n: usize, task: impl Fn(Arc<PostgresStore>, usize) -> F) -> Vec<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let spawned: Vec<_> = (0..n)
            .map(|i| self.runtime.spawn(task(Arc::clone(&self.stores[i % self.stores.len()]), i)))
            .collect();
        self.runtime.block_on(async { join_all(spawned).await.into_iter().map(Result::unwrap).collect() })
    }

    /// The counters are those of the listed jobs, and nothing is left to do.
    fn assert_counted(&self) {
        let store = &self.stores[0];
        let (stats, jobs) =
            self.runtime.block_on(async { (store.stats().await.unwrap(), all_jobs(store).await) });
        for counts in &stats.queues {
            for state in semel_core::lifecycle::State::ALL {
                let listed =
                    jobs.iter().filter(|job| job.spec.queue == counts.queue && job.progress.state == state);
                assert_eq!(counts.count(state), listed.count() as u64, "{state:?}");
            }
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stores.iter().for_each(|store| store.abandon());
    }
}

async fn put(store: &dyn Store, config: QueueConfig) {
    let command = Command::PutQueue { name: queue(), config: Box::new(config) };
    assert_eq!(store.apply(vec![command]).await.unwrap(), [Ok(Reply::Done)]);
}

async fn all_jobs(store: &Arc<PostgresStore>) -> Vec<semel_core::job::Job> {
    let mut query = JobQuery { limit: 1000, ..JobQuery::default() };
    let mut jobs = Vec::new();
    loop {
        let page = store.jobs(query.clone()).await.unwrap();
        jobs.extend(page.items);
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return jobs,
        }
    }
}

fn draft() -> Draft {
    Draft::new(queue(), Payload::from_json("{}".to_owned()).unwrap())
}

fn keyed(key: &str) -> Command {
    Command::Publish(draft().with_key(Key::try_from(key).unwrap()).check().unwrap())
}

fn grouped(group: &str) -> Command {
    let group = Group::try_from(group).unwrap();
    Command::Publish(Draft { group: Some(group), ..draft() }.check().unwrap())
}

fn settle(delivery: &Delivery, outcome: Outcome) -> Command {
    Command::Settle(Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap())
}

fn done() -> Outcome {
    Outcome::Done { result: None, effect: None }
}

fn failed() -> Outcome {
    Outcome::Failed { error: "boom".into() }
}

fn published(answer: &Answer) -> JobId {
    match answer {
        Ok(Reply::Published(published)) => published.id,
        other => panic!("a publish was answered {other:?}"),
    }
}

async fn lease(store: &PostgresStore, max: u32) -> Vec<Delivery> {
    store.lease(LeaseRequest::new(queue(), max, None).unwrap()).await.unwrap()
}

/// Works until `left` jobs have been completed, by everybody together.
async fn work(store: &PostgresStore, left: &AtomicU32, mut on_delivery: impl FnMut(&Delivery)) {
    while left.load(Ordering::SeqCst) > 0 {
        let deliveries = lease(store, 5).await;
        deliveries.iter().for_each(&mut on_delivery);
        if deliveries.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        let answers =
            store.apply(deliveries.iter().map(|delivery| settle(delivery, done())).collect()).await.unwrap();
        for answer in answers {
            assert!(matches!(answer, Ok(Reply::Settled { repeated: false, .. })), "{answer:?}");
            left.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_new_key_published_everywhere_at_once_makes_one_job() {
    let nodes = Nodes::new(QueueConfig::default());
    for round in 0..10 {
        let answers = nodes.at_once(9, move |store, task| async move {
            // In another order everywhere, so that locks that were not sorted would lock each other out.
            let mut keys: Vec<_> = (0..40).collect();
            keys.rotate_left(task * 4);
            let batch = keys.iter().map(|key| keyed(&format!("{round}-{key}"))).collect();
            let answers = store.apply(batch).await.unwrap();
            keys.into_iter().zip(answers.iter().map(published)).collect::<BTreeMap<_, _>>()
        });
        assert!(answers.iter().all(|ids| *ids == answers[0]), "everybody got the same jobs");
    }
    let jobs = nodes.runtime.block_on(all_jobs(&nodes.stores[0]));
    assert_eq!(jobs.len(), 400);
    assert!(jobs.iter().all(|job| job.duplicates == 8), "each was published nine times");
    nodes.assert_counted();
}

#[test]
fn every_job_is_leased_once_and_completed_once() {
    let nodes = Nodes::new(QueueConfig::default());
    let left = Arc::new(AtomicU32::new(600));
    let leases = nodes.at_once(9, |store, task| {
        let left = Arc::clone(&left);
        async move {
            let mut leased = Vec::new();
            if task < 3 {
                for n in 0..20 {
                    let batch = (0..10).map(|i| keyed(&format!("{task}-{n}-{i}"))).collect();
                    store.apply(batch).await.unwrap();
                }
            } else {
                work(&store, &left, |delivery| leased.push(delivery.id)).await;
            }
            leased
        }
    });
    let all: Vec<_> = leases.concat();
    assert_eq!(all.len(), 600);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 600, "nobody got what another had");
    nodes.assert_counted();
}

#[test]
fn a_group_is_worked_in_order_by_all_nodes_together() {
    let config = QueueConfig { group_concurrency: Some(1), ..QueueConfig::default() };
    let nodes = Nodes::new(config);
    let left = Arc::new(AtomicU32::new(240));
    let out: Arc<std::sync::Mutex<BTreeMap<Group, (JobId, bool)>>> = Arc::default();
    nodes.at_once(9, |store, task| {
        let (left, out) = (Arc::clone(&left), Arc::clone(&out));
        async move {
            if task < 3 {
                for n in 0..20 {
                    let batch = (0..4).map(|i| grouped(&format!("g{}", (n + i) % 6))).collect();
                    store.apply(batch).await.unwrap();
                }
                return;
            }
            while left.load(Ordering::SeqCst) > 0 {
                let deliveries = lease(&store, 3).await;
                for delivery in &deliveries {
                    let group = delivery.spec.group.clone().unwrap();
                    let before = out.lock().unwrap().insert(group, (delivery.id, true));
                    let in_order = before.is_none_or(|(id, out)| !out && id < delivery.id);
                    assert!(in_order, "{} overtook {before:?}", delivery.id);
                }
                for delivery in &deliveries {
                    let group = delivery.spec.group.clone().unwrap();
                    // Before the store hears of it: afterwards another node may have the next one already.
                    out.lock().unwrap().insert(group, (delivery.id, false));
                    let answers = store.apply(vec![settle(delivery, done())]).await.unwrap();
                    assert!(answers[0].is_ok(), "{answers:?}");
                    left.fetch_sub(1, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
            }
        }
    });
    nodes.assert_counted();
}

#[test]
fn a_limit_on_what_is_out_is_kept_by_all_nodes_together() {
    let config = QueueConfig { concurrency: Some(4), ..QueueConfig::default() };
    let nodes = Nodes::new(config);
    let left = Arc::new(AtomicU32::new(150));
    let (out, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    nodes.at_once(9, |store, task| {
        let (left, out, most) = (Arc::clone(&left), Arc::clone(&out), Arc::clone(&most));
        async move {
            if task < 3 {
                for n in 0..10 {
                    store.apply((0..5).map(|i| keyed(&format!("{task}-{n}-{i}"))).collect()).await.unwrap();
                }
                return;
            }
            while left.load(Ordering::SeqCst) > 0 {
                for delivery in lease(&store, 3).await {
                    most.fetch_max(out.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    out.fetch_sub(1, Ordering::SeqCst);
                    store.apply(vec![settle(&delivery, done())]).await.unwrap();
                    left.fetch_sub(1, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
            }
        }
    });
    let most = most.load(Ordering::SeqCst);
    assert!((1..=4).contains(&most), "{most} were out at once");
    nodes.assert_counted();
}

#[test]
fn failures_seen_by_different_nodes_open_one_breaker() {
    let breaker = BreakerConfig { failures: 6, cooldown: Millis::from_hours(1) };
    let nodes = Nodes::new(QueueConfig { breaker: Some(breaker), ..QueueConfig::default() });
    let failures = nodes.at_once(6, |store, task| async move {
        store.apply(vec![keyed(&task.to_string())]).await.unwrap();
        let deliveries = lease(&store, 1).await;
        let batch: Vec<_> = deliveries.iter().map(|delivery| settle(delivery, failed())).collect();
        store.apply(batch).await.unwrap().len()
    });
    assert_eq!(failures.iter().sum::<usize>(), 6, "each task found a job, its own or another's");
    nodes.at_once(3, |store, task| async move {
        store.apply(vec![keyed(&format!("late-{task}"))]).await.unwrap();
        assert_eq!(lease(&store, 5).await, [], "no node lets anything out");
    });
    nodes.assert_counted();
}

/// Publishing the same few keys over and over, working them, pruning what is over, and changing the settings, all at once.
#[test]
fn whatever_happens_at_once_the_counters_are_right_in_the_end() {
    let config = |n: u64| QueueConfig {
        window: Millis::from_millis(5 * n),
        retention: Retention {
            completed: Millis::from_millis(10),
            dead: Millis::from_millis(20),
            archive: false,
        },
        group_concurrency: n.is_multiple_of(2).then_some(2),
        max_attempts: 2,
        ..QueueConfig::default()
    };
    let nodes = Nodes::new(config(1));
    nodes.at_once(10, move |store, task| async move {
        for n in 0..40_u64 {
            match task {
                0 => drop(store.apply(vec![Command::Prune { limit: 7 }]).await.unwrap()),
                1 => drop(store.apply(vec![Command::Prune { limit: 50 }, grouped("g")]).await.unwrap()),
                2 if n % 8 == 0 => put(&*store, config(n)).await,
                2 => drop(store.apply(vec![keyed("a"), Command::Rescue { limit: 10 }]).await.unwrap()),
                3..6 => {
                    let key = |i: u64| keyed(&format!("{}", (n + i * 3) % 11));
                    let batch = (0..9).map(key).chain([grouped("g"), grouped("h")]).collect();
                    store.apply(batch).await.unwrap();
                }
                _ => {
                    let deliveries = lease(&store, 4).await;
                    let end = |(i, delivery): (usize, &Delivery)| match i % 3 {
                        0 => settle(delivery, failed()),
                        1 => Command::Bury { id: delivery.id, reason: "no".into() },
                        _ => settle(delivery, done()),
                    };
                    store.apply(deliveries.iter().enumerate().map(end).collect()).await.unwrap();
                }
            }
        }
    });
    nodes.assert_counted();
}
