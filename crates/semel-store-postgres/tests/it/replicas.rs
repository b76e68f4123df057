//! A primary and its replica: which of them is written to, and what follows when that changes.

use semel_cluster::{Cluster, Replication};
use semel_core::ids::{JobId, Token};
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_store::{Command, Reply, Store, StoreError};
use semel_store_postgres::{Options, PostgresStore, nodes};

use crate::harness::runtime;

/// The address of both, of which the first is asked first.
fn both(first: &Cluster, second: &Cluster) -> String {
    // postgres://user:password@one/database
    let address = first.address().to_string();
    first.url("postgres").replace(&address, &format!("{address},{}", second.address()))
}

fn queue() -> QueueName {
    QueueName::try_from("q").unwrap()
}

/// The upper part of a token.
fn epoch(token: Token) -> u64 {
    token.raw() >> 40
}

pub(crate) async fn make_queue(store: &PostgresStore) {
    let put = Command::PutQueue { name: queue(), config: Box::new(QueueConfig::default()) };
    store.apply(vec![put]).await.unwrap().pop().unwrap().unwrap();
}

pub(crate) async fn publish(store: &PostgresStore, key: &str) -> JobId {
    let draft = Draft::new(queue(), Payload::from_parsed("1".to_owned()));
    let publish = draft.with_key(key.try_into().unwrap()).check().unwrap();
    match store.apply(vec![Command::Publish(publish)]).await.unwrap().pop().unwrap().unwrap() {
        Reply::Published(published) => published.id,
        other => panic!("no answer to a publish: {other:?}"),
    }
}

pub(crate) async fn lease(store: &PostgresStore) -> Vec<Delivery> {
    store.lease(LeaseRequest::new(queue(), 100, None).unwrap()).await.unwrap()
}

/// Publishes a job and leases it; the token of the lease.
async fn publish_and_lease(store: &PostgresStore, key: &str) -> Token {
    publish(store, key).await;
    lease(store).await.first().expect("it is ready").token
}

#[test]
fn a_replica_is_refused_and_the_primary_is_found_among_several() {
    let primary = Cluster::with(&[("fsync", "off")]).unwrap();
    let replica = Cluster::replica(&primary, Replication::Async).unwrap();
    runtime().block_on(async {
        let alone = PostgresStore::open(&replica.url("postgres"), Options::default()).await;
        let Err(StoreError::Open(why)) = alone else { panic!("a replica must not be opened") };
        assert!(why.contains("is a replica and takes no writes"), "{why}");
        let both = both(&replica, &primary);
        let store = PostgresStore::open(&both, Options::default()).await.expect("one of them is the primary");
        store.close().await.unwrap();
    });
}

#[test]
fn after_a_failover_tokens_go_on_in_a_new_epoch_and_the_old_primary_is_left_alone() {
    let mut primary = Cluster::with(&[("fsync", "off")]).unwrap();
    let replica = Cluster::replica(&primary, Replication::Async).unwrap();
    let both = both(&primary, &replica);
    runtime().block_on(async {
        let open = async || PostgresStore::open(&both, Options::default()).await.unwrap();
        let store = open().await;
        make_queue(&store).await;
        let before = publish_and_lease(&store, "before").await;
        assert_eq!(epoch(before), 1, "nobody has taken over");
        primary.wait_until_replayed(&replica).unwrap();
        primary.kill().unwrap();
        replica.promote().unwrap();
        let after = publish_and_lease(&store, "after").await;
        assert!(epoch(after) > epoch(before), "{before} {after}");
        primary.restart().unwrap();
        // One that knows of the other, and one that has to find out.
        for (known, key) in [(Some(store), "again"), (None, "anew")] {
            let store = match known {
                Some(store) => store,
                None => open().await,
            };
            replica.terminate_backends().unwrap();
            let again = publish_and_lease(&store, key).await;
            assert_eq!(epoch(again), epoch(after), "{key}");
            store.close().await.unwrap();
        }
        let jobs = "SELECT count(*) FROM semel.job";
        assert_eq!(primary.sql("postgres", jobs).unwrap(), "1", "nothing was written to the old primary");
        assert_eq!(replica.sql("postgres", jobs).unwrap(), "4");
        let exposure = nodes(&replica.url("postgres")).await.unwrap().exposure;
        assert!(exposure.is_some_and(|exposed| exposed.since < exposed.until), "{exposure:?}");
    });
}
