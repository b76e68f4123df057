//! Handlers as they are seen in the field. The testkit finds out about each of them.

use std::future::ready;

use semel_ledger::handler::{Disposition, Receipt};
use semel_ledger::testkit::{Delivery, Promise, Proof, prove};
use semel_ledger::{Call, Error, Key, Ledger, Memory, Verdict};

use super::{LEASE, Provider, handled};

type Outcome = Result<Verdict<u64>, Error<String>>;

fn broken_at(proof: &Proof) -> Vec<&str> {
    proof.violations().map(|trial| trial.name.as_str()).collect()
}

/// Proves a handler, and says where it breaks the promise.
async fn judged<F, Fut>(work: F) -> Proof
where
    F: Fn(Ledger<Memory>, Provider, Call) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let ledger = Ledger::builder(Memory::new(), "broken").lease(LEASE).cache_bytes(0).build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let provider = Provider::at(directory.path());
    let charging = provider.clone();
    let deliver = move |delivery: Delivery| {
        let (work, ledger, provider) = (work.clone(), ledger.clone(), charging.clone());
        async move { handled(&delivery, |call| work(ledger, provider, call)).await }
    };
    prove(Promise::Once, deliver, |key: Key| ready(provider.count(key.as_str()))).await
}

/// No ledger at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_naive_worker_charges_twice() {
    let directory = tempfile::tempdir().unwrap();
    let provider = Provider::at(directory.path());
    let charging = provider.clone();
    let deliver = move |delivery: Delivery| {
        charging.charge(delivery.key.as_str());
        ready(Disposition::Ack { receipt: Receipt::Applied, result: None })
    };
    let proof = prove(Promise::Once, deliver, |key: Key| ready(provider.count(key.as_str()))).await;
    assert_eq!(
        broken_at(&proof),
        ["delivered twice", "delivered to a crowd at once", "killed before the ack (1)"]
    );
}

/// The key is written down, then the charge is made, and whoever finds the key believes that it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_taken_for_the_charge_loses_one() {
    let proof = judged(|ledger, provider, call| async move {
        let job = call.key().to_string();
        match ledger.at_most_once(&call).run(|_| async move { Ok(provider.charge(&job)) }).await {
            Ok(Verdict::OutcomeUnknown { .. }) => Ok(Verdict::Replayed(0)),
            other => other,
        }
    });
    assert_eq!(broken_at(&proof.await), ["killed after the claim (1)"]);
}

/// An intent whose key is not handed on: whoever recovers it charges again.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_given_the_key_charges_again() {
    let proof = judged(|ledger, provider, call| async move {
        let job = call.key().to_string();
        ledger.intent(&call).run(|_| async move { Ok(provider.charge(&job)) }).await
    });
    assert_eq!(broken_at(&proof.await), ["killed after the effect (1)"]);
}

/// The id of the delivery as the key: every delivery is a new operation.
#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_a_delivery_is_no_key() {
    let proof = judged(|ledger, provider, call| async move {
        let job = call.key().to_string();
        let delivery = Call::new(format!("delivery-{}", semel_ledger::store::Owner::random())).unwrap();
        let charge = |intent: semel_ledger::Intent| async move {
            Ok(provider.charge_once(&job, intent.downstream_key()))
        };
        ledger.intent(&delivery).run(charge).await
    });
    let proof = proof.await;
    assert!(broken_at(&proof).contains(&"delivered twice"), "{proof}");
    assert!(broken_at(&proof).contains(&"delivered to a crowd at once"), "{proof}");
}
