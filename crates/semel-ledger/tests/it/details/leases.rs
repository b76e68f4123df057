//! Claims that are kept while the effect runs, and claims that are lost.

use std::sync::Arc;
use std::time::Duration;

use semel_ledger::{Call, Error, Failure, Verdict};
use tokio::sync::Notify;

use super::{Effect, HOUR, Moody, builder, call, charge};

const LEASE: Duration = Duration::from_millis(90);

#[tokio::test]
async fn a_claim_is_renewed_for_as_long_as_the_effect_takes() {
    let store = Moody::default();
    let ledger = builder(store.clone()).lease(LEASE).build().unwrap();
    let watched = store.clone();
    let long = |_| async move {
        // Six thirds of a lease: twice its length.
        while watched.renewals() < 6 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Effect::Ok("ch_1".to_owned())
    };
    let call = call();
    let (first, second) = tokio::join!(ledger.intent(&call).run(long), async {
        while store.renewals() < 5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ledger.intent(&call).run(charge).await
    });
    assert_eq!(first.unwrap(), Verdict::Applied("ch_1".to_owned()));
    let Verdict::InProgress { until } = second.unwrap() else { panic!("the claim was lost") };
    assert!(until.remaining <= LEASE);
}

#[tokio::test]
async fn whoever_loses_the_claim_is_stopped() {
    let store = Moody::default();
    let ledger = builder(store.clone()).lease(LEASE).build().unwrap();
    let (begun, overtaken) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let call = call();
    let stalls = |_| {
        begun.notify_one();
        std::future::pending::<Effect>()
    };
    let (first, second) = tokio::join!(ledger.intent(&call).run(stalls), async {
        begun.notified().await;
        // To the store the lease is over, whatever the first worker believes.
        store.memory.advance(HOUR);
        let verdict = ledger.intent(&call).run(charge).await;
        overtaken.notify_one();
        verdict
    });
    assert!(matches!(first, Err(Error::Stale)), "{first:?}");
    assert_eq!(second.unwrap(), Verdict::Applied("ch_1".to_owned()));
}

#[tokio::test]
async fn whoever_was_overtaken_cannot_record() {
    let store = Moody::default();
    // Nothing is renewed within this test.
    let ledger = builder(store.clone()).lease(HOUR).build().unwrap();
    let call = call();
    let (inner, other, within) = (ledger.clone(), call.clone(), store.clone());
    let slow = |_| async move {
        within.memory.advance(2 * HOUR);
        let verdict = inner.intent(&other).run(charge).await.unwrap();
        assert_eq!(verdict, Verdict::Applied("ch_1".to_owned()));
        Effect::Ok("stale".to_owned())
    };
    let overtaken = ledger.intent(&call).run(slow).await;
    assert!(matches!(overtaken, Err(Error::Stale)), "{overtaken:?}");
    assert_eq!(ledger.intent(&call).run(charge).await.unwrap(), Verdict::Replayed("ch_1".to_owned()));
}

#[tokio::test]
async fn an_older_token_of_the_queue_is_stale_whoever_holds_the_lease() {
    let ledger = builder(Moody::default()).build().unwrap();
    let failed = |_| async { Effect::Err(Failure::Unknown("timed out".to_owned())) };
    assert!(ledger.intent(&call().token(7)).run(failed).await.is_err());
    let stale = ledger.intent(&call().token(6)).run(charge).await;
    assert!(matches!(stale, Err(Error::Stale)), "{stale:?}");
    let newer: Call = call().token(8);
    assert_eq!(ledger.intent(&newer).run(charge).await.unwrap(), Verdict::Applied("ch_1".to_owned()));
}
