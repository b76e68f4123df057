//! What the tests of the short ways have in common: a store with one queue, and publishes to it.

use std::sync::Arc;

use semel_cluster::Database;
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Published};
use semel_core::queue::QueueConfig;
use semel_core::refusal::Refusal;
use semel_store::{Command, Reply, Store};

use crate::options::Options;
use crate::scratch;
use crate::store::PostgresStore;

pub(super) const NO_LONG_WAY: &str = "DROP FUNCTION semel.lock_queues";

/// Runs a test against a store with one queue that it has published to.
pub(super) fn with_store<F: Future<Output = ()>>(
    test: impl FnOnce(Arc<PostgresStore>, Database<'static>) -> F,
) {
    let (database, runtime) = (scratch::database(), scratch::runtime());
    runtime.block_on(async {
        let store = Arc::new(open(&database).await);
        put_queue(&store, QueueConfig::default()).await;
        publish(&store, keyed("first")).await.unwrap();
        test(Arc::clone(&store), database).await;
        store.abandon();
    });
}

pub(super) async fn open(database: &Database<'_>) -> PostgresStore {
    PostgresStore::open(database.url(), Options::default()).await.unwrap()
}

pub(super) async fn put_queue(store: &PostgresStore, config: QueueConfig) {
    let command = Command::PutQueue { name: queue(), config: Box::new(config) };
    assert_eq!(store.apply(vec![command]).await.unwrap(), [Ok(Reply::Done)]);
}

pub(super) fn queue() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

pub(super) fn draft() -> Draft {
    Draft::new(queue(), Payload::from_json("1").unwrap())
}

pub(super) fn keyed(key: &str) -> Command {
    Command::Publish(draft().with_key(Key::try_from(key).unwrap()).check().unwrap())
}

pub(super) async fn publish(store: &PostgresStore, command: Command) -> Result<Published, Refusal> {
    published(store.apply(vec![command]).await.unwrap().remove(0))
}

pub(super) fn published(answer: semel_store::Answer) -> Result<Published, Refusal> {
    match answer? {
        Reply::Published(published) => Ok(published),
        other => panic!("a publish was answered {other:?}"),
    }
}
