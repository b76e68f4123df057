//! A store that was restored from a backup: what was answered since is missing, and nobody may take it for the old one.

use semel_cluster::Cluster;
use semel_core::ids::Token;
use semel_store::Store as _;
use semel_store::shared::Shared as _;
use semel_store_postgres::{Options, PostgresStore, nodes};

use crate::harness::runtime;
use crate::replicas::{lease, make_queue, publish};

async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(url, Options::default()).await.unwrap()
}

/// A store with one job that has been leased, and one that has not; the token of the lease.
async fn begin(url: &str) -> (PostgresStore, Token) {
    let store = open(url).await;
    make_queue(&store).await;
    publish(&store, "leased").await;
    let leased = lease(&store).await.remove(0).token;
    publish(&store, "waiting").await;
    assert_eq!(store.exposure(), None, "nobody has taken over");
    (store, leased)
}

/// Hands the job that waits to a worker, who does it; the token of the lease.
async fn lose(store: PostgresStore) -> Token {
    let token = lease(&store).await.remove(0).token;
    store.close().await.unwrap();
    token
}

/// Goes on with a store that lacks the end: the job that waits may have been done. The token of its lease.
async fn go_on(url: &str) -> Token {
    let store = open(url).await;
    let exposure = store.exposure().expect("it is noticed");
    assert!(exposure.since < exposure.until, "{exposure:?}");
    let new = publish(&store, "new").await;
    let leased = lease(&store).await;
    let marked: Vec<_> = leased.iter().map(|one| (one.id == new, exposure.covers(one))).collect();
    assert_eq!(marked, [(false, true), (true, false)]);
    store.close().await.unwrap();
    assert_eq!(nodes(url).await.unwrap().exposure, Some(exposure), "and others are told");
    let again = open(url).await;
    assert_eq!(again.exposure(), Some(exposure), "it is kept, and not noticed twice");
    again.close().await.unwrap();
    leased[0].token
}

#[test]
fn each_server_that_is_restored_from_a_backup_is_noticed_and_hands_out_greater_tokens_than_any_before() {
    let mut primary = Cluster::with(&[("fsync", "off")]).unwrap();
    runtime().block_on(async {
        let (store, _) = begin(&primary.url("postgres")).await;
        // Two backups are the same backup twice.
        let backups = [primary.backup().unwrap(), primary.backup().unwrap()];
        let mut latest = lose(store).await;
        primary.stop().unwrap();
        for mut restored in backups {
            restored.restore().unwrap();
            let token = go_on(&restored.url("postgres")).await;
            assert!(token > latest, "{token} comes after {latest}");
            latest = token;
        }
    });
}

#[test]
fn a_dump_that_is_loaded_is_noticed_on_the_same_server() {
    let cluster = Cluster::with(&[("fsync", "off")]).unwrap();
    runtime().block_on(async {
        let (store, before) = begin(&cluster.url("postgres")).await;
        cluster.dump_into("postgres", "loaded").unwrap();
        let lost = lose(store).await;
        let after = go_on(&cluster.url("loaded")).await;
        assert!(before < lost && lost < after, "{before} {lost} {after}");
    });
}
