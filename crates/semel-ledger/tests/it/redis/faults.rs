//! What a Redis in trouble answers: an error, never "new".

use semel_ledger::StoreErrorKind;
use semel_ledger::redis::Redis;
use semel_ledger::store::{Claimed, Hold, Release, Store};

use super::OnRedis;
use crate::trouble::{MINUTE, claim, granted, refuses, scope};

const DURABLE: &[(&str, &str)] = &[("appendonly", "yes"), ("appendfsync", "always")];

#[tokio::test]
async fn a_redis_that_is_down_is_an_error_and_one_that_is_back_knows_everything() {
    let mut harness = OnRedis::start(DURABLE).await;
    let holder = granted(&harness.store, "one").await;
    harness.server.kill().unwrap();
    refuses(&harness.store, &holder, StoreErrorKind::Unavailable).await;
    let error = harness.store.claim(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    harness.server.restart().unwrap();
    // It has forgotten the scripts, not the entries.
    assert_eq!(harness.store.complete(&holder, "1", MINUTE).await.unwrap(), Hold::Held(()));
    assert!(matches!(harness.store.claim(&claim("one")).await.unwrap(), Claimed::Done(_)));
}

#[tokio::test]
async fn a_redis_that_was_emptied_is_noticed_by_workers_that_run() {
    let harness = OnRedis::start(&[]).await;
    let store = &harness.store;
    let holder = granted(store, "one").await;
    harness.server.command(&["FLUSHALL"]).unwrap();
    for error in
        [store.claim(&claim("one")).await.unwrap_err(), store.lookup(&[scope("one")]).await.unwrap_err()]
    {
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert!(error.to_string().contains("lost its entries"), "{error}");
    }
    assert_eq!(store.complete(&holder, "1", MINUTE).await.unwrap(), Hold::Lost);
    // Another worker that starts now has the new mark, and this one still does not trust it.
    let other = Redis::open(&harness.server.url()).unwrap();
    other.ensure_schema().await.unwrap();
    granted(&other, "two").await;
    store.claim(&claim("two")).await.unwrap_err();
    store.ensure_schema().await.unwrap_err();
}

#[tokio::test]
async fn a_redis_without_persistence_that_was_restarted_is_noticed_too() {
    let mut harness = OnRedis::start(&[]).await;
    granted(&harness.store, "one").await;
    harness.server.restart().unwrap();
    // The first answer may be that the connection is gone.
    let mut error = harness.store.claim(&claim("one")).await.unwrap_err();
    if error.kind() == StoreErrorKind::Unavailable {
        error = harness.store.claim(&claim("one")).await.unwrap_err();
    }
    assert!(error.to_string().contains("lost its entries"), "{error}");
}

#[tokio::test]
async fn a_redis_without_memory_refuses_and_still_lets_go() {
    let harness = OnRedis::start(&[]).await;
    let holder = granted(&harness.store, "one").await;
    harness.server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    refuses(&harness.store, &holder, StoreErrorKind::Refused).await;
    assert_eq!(harness.store.release(&holder, Release::Forget).await.unwrap(), Hold::Held(()));
    harness.server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert_eq!(harness.store.lookup(&[scope("another"), scope("marked")]).await.unwrap(), [None, None]);
}

#[tokio::test]
async fn a_redis_that_may_drop_entries_is_refused_from_the_start() {
    let server =
        semel_cluster::Redis::with(&[("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")]).unwrap();
    let error = Redis::open(&server.url()).unwrap().ensure_schema().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(error.to_string().contains("noeviction"), "{error}");
}

#[tokio::test]
async fn a_redis_that_became_a_replica_refuses() {
    let harness = OnRedis::start(&[]).await;
    let holder = granted(&harness.store, "one").await;
    harness.server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    refuses(&harness.store, &holder, StoreErrorKind::Refused).await;
}

#[tokio::test]
async fn a_redis_that_is_frozen_is_an_error_in_time() {
    let harness = OnRedis::start(&[]).await;
    // From here on it knows the script.
    granted(&harness.store, "before").await;
    harness.server.freeze().unwrap();
    let error = harness.store.claim(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    harness.server.thaw().unwrap();
    // What was asked may have been done: somebody holds the entry, and that is what the next is told.
    assert!(matches!(harness.store.claim(&claim("one")).await.unwrap(), Claimed::Busy { .. }));
}

#[tokio::test]
async fn a_newer_layout_is_refused() {
    let harness = OnRedis::start(&[]).await;
    harness.server.command(&["SET", "semel-ledger:layout", "2 abc"]).unwrap();
    let newcomer = Redis::open(&harness.server.url()).unwrap();
    assert_eq!(newcomer.ensure_schema().await.unwrap_err().kind(), StoreErrorKind::Schema);
}

#[tokio::test]
async fn what_is_no_entry_is_corrupt_and_not_new() {
    let harness = OnRedis::start(&[]).await;
    harness.server.command(&["LPUSH", "semel-ledger:7:billing::one", "nonsense"]).unwrap();
    let error = harness.store.claim(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    assert!(!error.retryable());
}
