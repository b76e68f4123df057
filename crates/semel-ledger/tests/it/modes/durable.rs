//! The modes that claim an entry, on every store.

use std::future::ready;

use semel_ledger::postgres::SqlxPostgres;
use semel_ledger::store::Store;
use semel_ledger::testkit::{Delivery, Promise, prove};
use semel_ledger::{Call, Error, Failure, Found, Halt, Ledger, Memory, Steps, Verdict};

use super::{LEASE, Provider, handled};
use crate::mysql::OnMaria;
use crate::postgres::{database, pool, tokio_store};
use crate::redis::OnRedis;
use crate::sqlite::OnSqlite;

pub(crate) type Outcome = Result<Verdict<u64>, Error<String>>;

/// A service that remembers idempotency keys.
pub(crate) async fn intent<S: Store>(ledger: Ledger<S>, provider: Provider, call: Call) -> Outcome {
    let job = call.key().to_string();
    let charge =
        |intent: semel_ledger::Intent| async move { Ok(provider.charge_once(&job, intent.downstream_key())) };
    ledger.intent(&call).run(charge).await
}

/// A service that remembers nothing, and can be asked.
pub(crate) async fn reconcile<S: Store>(ledger: Ledger<S>, provider: Provider, call: Call) -> Outcome {
    let (job, asked) = (call.key().to_string(), provider.clone());
    let about = job.clone();
    let find = |_| async move { Ok(asked.find(&about).map_or(Found::NotApplied, Found::Applied)) };
    ledger.intent(&call).reconcile(find).run(|_| async move { Ok(provider.charge(&job)) }).await
}

/// The same, asked every time.
async fn ask<S: Store>(ledger: Ledger<S>, provider: Provider, call: Call) -> Outcome {
    let (job, asked) = (call.key().to_string(), provider.clone());
    let about = job.clone();
    let find = |_| async move { Ok(asked.find(&about).map_or(Found::NotApplied, Found::Applied)) };
    ledger.ask(&call, find).run(|_| async move { Ok(provider.charge(&job)) }).await
}

/// A service that remembers nothing and cannot be asked.
pub(crate) async fn at_most_once<S: Store>(ledger: Ledger<S>, provider: Provider, call: Call) -> Outcome {
    let job = call.key().to_string();
    ledger.at_most_once(&call).run(|_| async move { Ok(provider.charge(&job)) }).await
}

/// An effect that may happen again.
pub(crate) async fn seen<S: Store>(ledger: Ledger<S>, provider: Provider, call: Call) -> Outcome {
    let job = call.key().to_string();
    ledger.seen(&call).run(|| async move { Ok(provider.charge(&job)) }).await
}

/// Two services; what is counted is the second.
pub(crate) async fn steps<S: Store>(ledger: Ledger<S>, provider: Provider, call: Call) -> Outcome {
    let job = call.key().to_string();
    let order = |steps: Steps<S, String>| async move {
        let (hold, holding) = (format!("{job}/hold"), provider.clone());
        let reserve = |intent: semel_ledger::Intent| async move {
            Ok(holding.charge_once(&hold, intent.downstream_key()))
        };
        let first: u64 = steps.step("reserve").run(reserve).await?;
        let charge = |intent: semel_ledger::Intent| async move {
            Ok(provider.charge_once(&job, intent.downstream_key()))
        };
        let second: u64 = steps.step("charge").run(charge).await?;
        Ok(first + second)
    };
    ledger.steps(&call).run(order).await
}

/// A job that is given up: what is counted is the compensation of its first step.
async fn compensation<S: Store>(ledger: Ledger<S>, provider: Provider, call: Call) -> Outcome {
    let job = call.key().to_string();
    let order = |steps: Steps<S, String>| async move {
        let (hold, holding) = (format!("{job}/hold"), provider.clone());
        let release = move |begun: semel_ledger::Begun<u64>| async move {
            provider.charge_once(&job, begun.intent.downstream_key());
            Ok(())
        };
        let reserve = |intent: semel_ledger::Intent| async move {
            Ok(holding.charge_once(&hold, intent.downstream_key()))
        };
        steps.step("reserve").undo(release).run(reserve).await?;
        let declined = |_| async { Err::<u64, _>(Failure::not_applied("declined".to_owned())) };
        let charged: Result<u64, _> = steps.step("charge").run(declined).await;
        charged.map_err(|halt| match halt {
            Halt::Failed(Error::Effect(reason)) => Halt::give_up(reason),
            other => other,
        })
    };
    // A compensated job has come to its end: the queue may forget it.
    match ledger.steps(&call).run(order).await {
        Err(Error::Compensated { .. }) => Ok(Verdict::Replayed(0)),
        other => other,
    }
}

async fn kept<S, F, Fut>(store: &S, promise: Promise, consumer: &str, work: F)
where
    S: Store + Clone,
    F: Fn(Ledger<S>, Provider, Call) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    // No cache: the store is what is proven here.
    let ledger = Ledger::builder(store.clone(), consumer).lease(LEASE).cache_bytes(0).build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let provider = Provider::at(directory.path());
    let counted = provider.clone();
    let deliver = move |delivery: Delivery| {
        let (work, ledger, provider) = (work.clone(), ledger.clone(), provider.clone());
        async move { handled(&delivery, |call| work(ledger, provider, call)).await }
    };
    let proof = prove(promise, deliver, |key| ready(counted.count(key.as_str()))).await;
    assert!(proof.violations().next().is_none(), "{consumer}:\n{proof}");
}

/// All modes side by side, for they mostly wait for leases to end.
async fn all<S: Store + Clone>(store: S) {
    let store = &store;
    tokio::join!(
        kept(store, Promise::Once, "intent", intent),
        kept(store, Promise::Once, "reconcile", reconcile),
        kept(store, Promise::Once, "ask", ask),
        kept(store, Promise::AtMostOnce, "at most once", at_most_once),
        kept(store, Promise::AtLeastOnce, "seen", seen),
        kept(store, Promise::Once, "steps", steps),
        kept(store, Promise::Once, "compensation", compensation),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_in_memory() {
    all(Memory::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_in_postgres_through_tokio_postgres() {
    let database = database();
    all(tokio_store(database.url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_in_postgres_through_sqlx() {
    let database = database();
    all(SqlxPostgres::new(pool(database.url()).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_in_sqlite() {
    let on = OnSqlite::start().await;
    all(on.store.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_in_mariadb() {
    let on = OnMaria::start().await;
    all(on.store.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_in_redis() {
    let on = OnRedis::start(&[]).await;
    all(on.store.clone()).await;
}
