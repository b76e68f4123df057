//! The seen-set and the cache in front of it.

use std::sync::Arc;
use std::time::Duration;

use semel_ledger::events::{Counts, Outcome};
use semel_ledger::{Error, Key, Prune, Seen, Verdict};
use serde_json::json;

use super::{HOUR, Moody, builder, call, charge, moody};

fn keys(names: &[&str]) -> Vec<Key> {
    names.iter().map(|name| Key::new(name).unwrap()).collect()
}

#[tokio::test]
async fn the_first_is_told_from_the_others() {
    let (store, ledger) = moody();
    let key = Key::new("event-1").unwrap();
    assert_eq!(ledger.first(&key).await.unwrap(), Seen::First);
    assert_eq!(ledger.first(&key).await.unwrap(), Seen::Before);
    assert_eq!(store.asked(), 1, "the second time this process knows");
    let batch = ledger.first_of(&keys(&["event-2", "event-1", "event-2", "event-3"])).await.unwrap();
    assert_eq!(batch, [Seen::First, Seen::Before, Seen::Before, Seen::First]);
    assert_eq!(store.asked(), 2, "a batch is one question");
}

#[tokio::test]
async fn an_idempotent_effect_runs_again_after_a_failure() {
    let (_, ledger) = moody();
    let failed = ledger.seen(&call()).run(|| async { Err::<u64, _>("no") }).await;
    assert!(matches!(failed, Err(Error::Effect("no"))));
    let verdict = ledger.seen(&call()).run(|| async { Ok::<u64, &str>(3) }).await.unwrap();
    assert_eq!(verdict, Verdict::Applied(3));
    let verdict = ledger.seen(&call()).run(|| async { Ok::<u64, &str>(4) }).await.unwrap();
    assert_eq!(verdict, Verdict::Replayed(3));
}

#[tokio::test]
async fn a_cached_replay_asks_nobody_and_is_counted() {
    let (store, counts) = (Moody::default(), Arc::new(Counts::default()));
    let ledger = builder(store.clone()).metrics(counts.clone()).build().unwrap();
    assert!(ledger.intent(&call()).run(charge).await.unwrap().is_applied());
    for _ in 0..3 {
        assert!(ledger.intent(&call()).run(charge).await.unwrap().is_replayed());
    }
    assert_eq!((store.asked(), counts.hits(), counts.misses()), (1, 3, 1));
    assert_eq!((counts.verdicts(Outcome::Applied), counts.verdicts(Outcome::Replayed)), (1, 3));
    assert_eq!(counts.lookups().0, 1);
}

#[tokio::test]
async fn the_cache_compares_inputs_or_asks() {
    let (store, ledger) = moody();
    let with = |amount: u64| call().input(&json!({"amount": amount, "currency": "EUR"})).unwrap();
    // The cache learns of the entry without its input.
    assert!(ledger.intent(&with(10)).run(charge).await.unwrap().is_applied());
    let collision = ledger.intent(&with(20)).run(charge).await.unwrap_err();
    assert!(matches!(&collision, Error::Collision { fields } if fields == &["amount"]), "{collision}");
    assert_eq!(store.asked(), 1, "the cache knew the first input");

    let other = builder(store.clone()).build().unwrap();
    assert!(other.intent(&call()).run(charge).await.unwrap().is_replayed());
    let collision = other.intent(&with(20)).run(charge).await.unwrap_err();
    assert!(matches!(collision, Error::Collision { .. }));
    assert_eq!(store.asked(), 3, "the cache did not know the first input, so the store was asked");
}

#[tokio::test]
async fn what_has_expired_happens_again() {
    let store = Moody::default();
    let ledger = builder(store.clone()).ttl(HOUR).cache_bytes(0).build().unwrap();
    assert!(ledger.intent(&call()).run(charge).await.unwrap().is_applied());
    store.memory.advance(HOUR - Duration::from_secs(60));
    assert!(ledger.intent(&call()).run(charge).await.unwrap().is_replayed());
    store.memory.advance(Duration::from_secs(60));
    assert!(ledger.intent(&call()).run(charge).await.unwrap().is_applied());
}

#[tokio::test]
async fn prune_bites_until_nothing_is_left() {
    let store = Moody::default();
    let ledger = builder(store.clone()).ttl(HOUR).build().unwrap();
    let many: Vec<Key> = (0..25).map(|n| Key::new(format!("event-{n}")).unwrap()).collect();
    ledger.first_of(&many).await.unwrap();
    let prune = Prune { bite: 10, pause: Duration::ZERO, ..Prune::default() };
    assert_eq!(ledger.prune(prune).await.unwrap(), 0);
    store.memory.advance(HOUR);
    assert_eq!(ledger.prune(Prune { bites: 1, ..prune }).await.unwrap(), 10);
    assert_eq!(ledger.prune(prune).await.unwrap(), 15);
    assert!(store.memory.is_empty());
}

#[tokio::test]
async fn a_batch_can_be_looked_up() {
    let (_, ledger) = moody();
    assert!(ledger.intent(&call()).run(charge).await.unwrap().is_applied());
    let found = ledger.lookup(&keys(&["another", "order-9482"])).await.unwrap();
    assert!(found[0].is_none() && found[1].is_some());
}
