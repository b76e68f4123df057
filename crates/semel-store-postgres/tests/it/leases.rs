//! Leases begin behind the jobs that went out before; what appears in front of that is found all the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_cluster::Database;
use semel_core::ids::JobId;
use semel_core::lease::LeaseRequest;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::time::Millis;
use semel_store::{Command, ManualClock, Reply, Store};
use semel_store_postgres::PostgresStore;

use crate::harness::{START, database, options, runtime};

/// Longer than it takes until a queue is searched from the front, whatever else the machine does.
const DEADLINE: Duration = Duration::from_secs(60);

/// Two nodes with one clock.
struct Two {
    here: PostgresStore,
    there: PostgresStore,
    clock: Arc<ManualClock>,
    _database: Database<'static>,
}

fn queue() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

impl Two {
    /// With these jobs, published long ago.
    async fn with_jobs(database: Database<'static>, jobs: usize) -> (Self, Vec<JobId>) {
        let clock = Arc::new(ManualClock::at(START));
        let open = async || PostgresStore::open(database.url(), options(&clock)).await.unwrap();
        let (here, there) = (open().await, open().await);
        let config = Box::new(QueueConfig::default());
        here.apply(vec![Command::PutQueue { name: queue(), config }]).await.unwrap();
        let two = Self { here, there, clock, _database: database };
        let published = two.publish(jobs).await;
        two.clock.advance(Millis::from_hours(1));
        (two, published)
    }

    async fn publish(&self, jobs: usize) -> Vec<JobId> {
        let draft = || Draft::new(queue(), Payload::from_json("1").unwrap()).check().unwrap();
        let answers = self.here.apply((0..jobs).map(|_| Command::Publish(draft())).collect()).await.unwrap();
        let id = |answer| match answer {
            Ok(Reply::Published(published)) => published.id,
            other => panic!("{other:?}"),
        };
        answers.into_iter().map(id).collect()
    }

    /// Leases here, for longer than a test lasts.
    async fn lease(&self, max: u32) -> Vec<JobId> {
        let request = LeaseRequest::new(queue(), max, Some(Millis::from_hours(2))).unwrap();
        self.here.lease(request).await.unwrap().into_iter().map(|delivery| delivery.id).collect()
    }

    fn end(self) {
        self.here.abandon();
        self.there.abandon();
    }
}

#[test]
fn what_this_node_puts_back_goes_out_in_its_order() {
    let database = database();
    runtime().block_on(async {
        let (two, jobs) = Two::with_jobs(database, 4).await;
        assert_eq!(two.lease(2).await, jobs[..2]);
        two.here.forget_deliveries().await.unwrap();
        assert_eq!(two.lease(3).await, jobs[..3], "it knows");
        two.end();
    });
}

#[test]
fn what_another_node_puts_back_is_found_before_a_lease_finds_nothing() {
    let database = database();
    runtime().block_on(async {
        let (two, jobs) = Two::with_jobs(database, 3).await;
        assert_eq!(two.lease(2).await, jobs[..2]);
        two.there.forget_deliveries().await.unwrap();
        let mut left: BTreeSet<_> = jobs.into_iter().collect();
        while !left.is_empty() {
            let found = two.lease(1).await;
            assert!(found.len() == 1 && left.remove(&found[0]), "one of {left:?}, and not {found:?}");
        }
        two.end();
    });
}

#[test]
fn what_another_node_puts_back_does_not_wait_for_the_end_of_a_backlog() {
    let database = database();
    runtime().block_on(async {
        let (two, jobs) = Two::with_jobs(database, 3).await;
        assert_eq!(two.lease(2).await, jobs[..2]);
        two.there.forget_deliveries().await.unwrap();
        let (began, mut found) = (Instant::now(), BTreeSet::new());
        while !found.contains(&jobs[0]) {
            assert!(began.elapsed() < DEADLINE, "the first job is never found");
            two.publish(2).await;
            two.clock.advance(Millis::from_secs(10));
            found.extend(two.lease(1).await);
        }
        two.end();
    });
}
