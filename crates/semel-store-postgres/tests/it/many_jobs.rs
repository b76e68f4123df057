//! A key under which job after job was published: its window is over at once, but its jobs are kept.

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::retention::Retention;
use semel_core::time::Millis;
use semel_store::conformance::Harness;
use semel_store::{Command, JobQuery, Reply, Store};

use crate::harness::{Postgres, connect, runtime};

/// Several times what a row of `semel.key` keeps.
const JOBS: usize = 150;
const KEPT: Millis = Millis::from_hours(1);

fn queue() -> QueueName {
    QueueName::try_from("syncs").unwrap()
}

fn key() -> Key {
    Key::try_from("customer-4").unwrap()
}

async fn apply(store: &dyn Store, commands: Vec<Command>) -> Vec<Reply> {
    store.apply(commands).await.unwrap().into_iter().map(Result::unwrap).collect()
}

async fn put_queue(store: &dyn Store) {
    let config = QueueConfig {
        window: Millis::ZERO,
        retention: Retention { completed: KEPT, dead: KEPT, archive: false },
        ..QueueConfig::default()
    };
    apply(store, vec![Command::PutQueue { name: queue(), config: Box::new(config) }]).await;
}

/// Publishes a job under the key and buries it.
async fn publish_and_bury(store: &dyn Store) -> JobId {
    let draft = Draft::new(queue(), Payload::from_json("1").unwrap()).with_key(key());
    let id = match apply(store, vec![Command::Publish(draft.check().unwrap())]).await.as_slice() {
        [Reply::Published(published)] if !published.deduplicated => published.id,
        other => panic!("{other:?}"),
    };
    apply(store, vec![Command::Bury { id, reason: "over".into() }]).await;
    id
}

async fn listed(store: &dyn Store) -> Vec<JobId> {
    let mut query = JobQuery { key: Some(key()), limit: 40, ..JobQuery::default() };
    let mut ids = Vec::new();
    loop {
        let page = store.jobs(query.clone()).await.unwrap();
        ids.extend(page.items.iter().map(|job| job.id));
        let Some(next) = page.next else { return ids };
        query.cursor = Some(next);
    }
}

async fn newest(store: &dyn Store) -> Option<JobId> {
    store.key(&queue(), &key()).await.unwrap().map(|record| record.job.id)
}

#[test]
fn all_of_them_are_found_and_the_newest_decides() {
    let harness = Postgres::new();
    runtime().block_on(async {
        let store = &*harness.store();
        put_queue(store).await;
        let mut ids = Vec::new();
        for _ in 0..JOBS {
            ids.push(publish_and_bury(store).await);
        }
        ids.reverse();
        assert_eq!(listed(store).await, ids, "newest first, and every one");
        let client = connect(harness.url()).await;
        let row = client.query_one("SELECT max(cardinality(ids)) FROM semel.key", &[]).await.unwrap();
        assert!(row.get::<_, i32>(0) <= 64, "a publish writes a short row");
        while let Some(id) = newest(store).await {
            assert_eq!(id, ids[0], "the newest that is there");
            apply(store, vec![Command::Purge(id)]).await;
            ids.remove(0);
        }
        assert_eq!(ids, [], "each was the newest in its turn");
        let left = client.query_one("SELECT count(*) FROM semel.key, semel.key_past", &[]).await.unwrap();
        assert_eq!(left.get::<_, i64>(0), 0);
    });
}

#[test]
fn they_are_pruned_as_any_other() {
    let harness = Postgres::new();
    runtime().block_on(async {
        let store = &*harness.store();
        put_queue(store).await;
        for _ in 0..JOBS {
            publish_and_bury(store).await;
        }
        harness.advance(KEPT);
        let fresh = publish_and_bury(store).await;
        let mut dropped = 0;
        loop {
            match apply(store, vec![Command::Prune { limit: 20 }]).await.as_slice() {
                [Reply::Pruned { dropped: more, more: true, .. }] => dropped += more,
                [Reply::Pruned { dropped: last, more: false, .. }] => break dropped += last,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(dropped as usize, JOBS);
        assert_eq!(listed(store).await, [fresh]);
        let client = connect(harness.url()).await;
        let left = client.query_one("SELECT count(*) FROM semel.key_past", &[]).await.unwrap();
        assert_eq!(left.get::<_, i64>(0), 0);
    });
}
