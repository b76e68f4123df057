//! Proves that a handler's effect happens once: delivered twice, by a crowd at once, and killed at every boundary.
//!
//! [`prove`] gets a way to deliver a job to the handler, and a way to count the effects of a key. It makes keys of its own,
//! delivers each until the handler has settled it, as a queue would, and counts.
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use semel_ledger::handler::{Handler, Job};
//! use semel_ledger::testkit::{Delivery, Promise, prove};
//! use semel_ledger::{Call, Error, Failure, Intent, Ledger, Memory, Verdict};
//!
//! /// A provider that remembers idempotency keys: the job that each was charged for.
//! type Provider = Arc<Mutex<HashMap<String, String>>>;
//!
//! async fn charge(ledger: Ledger<Memory>, provider: Provider, call: Call) -> Result<Verdict<()>, Error<String>> {
//!     let job = call.key().to_string();
//!     let effect = |intent: Intent| async move {
//!         provider.lock().unwrap().insert(intent.downstream_key().to_owned(), job);
//!         Ok::<(), Failure<String>>(())
//!     };
//!     ledger.intent(&call).run(effect).await
//! }
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A short lease: after each kill, the testkit waits for it to end.
//! let ledger = Ledger::builder(Memory::new(), "billing").lease(Duration::from_millis(60)).build()?;
//! let provider = Provider::default();
//! let charged = provider.clone();
//! let deliver = move |delivery: Delivery| {
//!     let (ledger, provider) = (ledger.clone(), provider.clone());
//!     async move {
//!         let job = Job { key: Some(delivery.key.as_str()), token: Some(delivery.token), payload: b"{}" };
//!         Handler::new().handle(&job, |call| charge(ledger, provider, call)).await
//!     }
//! };
//! let effects = async |key: semel_ledger::Key| {
//!     charged.lock().unwrap().values().filter(|job| **job == key.as_str()).count() as u64
//! };
//! prove(Promise::Once, deliver, effects).await.assert();
//! # Ok(()) }
//! ```
//!
//! A handler that is stopped here is dropped at a boundary, which leaves in the store what a killed process leaves. For
//! real processes, [`hooked`] tells when a boundary is reached.

mod hook;
mod kill;
mod proof;

pub(crate) use hook::reach;
pub use hook::{Hook, hooked};
pub use proof::{Promise, Proof, Trial};

use std::sync::Arc;
use std::time::Duration;

use crate::handler::{Disposition, Receipt};
use crate::{Boundary, Key};

/// Deliveries at once.
const CROWD: usize = 8;

/// How often a job is delivered before the testkit gives up, and the least time between two.
const DELIVERIES: u64 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// One delivery of a job that the testkit made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The same for all deliveries of the job.
    pub key: Key,
    /// Higher with every delivery, as the token of a queue is.
    pub token: u64,
}

/// Delivers jobs to a handler in every unpleasant way, and counts the effects.
///
/// `deliver` hands one delivery to the handler; `effects` counts how often the effect of a key has happened, where it
/// happens: rows in a table, charges at a provider.
pub async fn prove<D, DF, C, CF>(promise: Promise, deliver: D, effects: C) -> Proof
where
    D: Fn(Delivery) -> DF + Send + Sync + 'static,
    DF: Future<Output = Disposition> + Send + 'static,
    C: Fn(Key) -> CF,
    CF: Future<Output = u64>,
{
    let bench = Bench { promise, deliver: Arc::new(deliver), effects };
    let mut trials = vec![bench.twice().await, bench.at_once().await];
    for boundary in Boundary::ALL {
        // A job of several steps reaches a boundary several times.
        for turn in 1.. {
            let Some(trial) = bench.killed(boundary, turn).await else { break };
            trials.push(trial);
        }
    }
    Proof { trials }
}

struct Bench<D, C> {
    promise: Promise,
    deliver: Arc<D>,
    effects: C,
}

impl<D, DF, C, CF> Bench<D, C>
where
    D: Fn(Delivery) -> DF + Send + Sync + 'static,
    DF: Future<Output = Disposition> + Send + 'static,
    C: Fn(Key) -> CF,
    CF: Future<Output = u64>,
{
    /// A job that is delivered again after it was acknowledged.
    async fn twice(&self) -> Trial {
        let key = key("twice");
        let first = settled(&*self.deliver, &key, 1).await;
        self.trial("delivered twice", key, vec![first]).await
    }

    /// A job that many workers get at the same moment.
    async fn at_once(&self) -> Trial {
        let key = key("crowd");
        let deliveries = (0..CROWD).map(|_| {
            let (deliver, key) = (self.deliver.clone(), key.clone());
            // The same token for all: nobody of the crowd is stale.
            tokio::spawn(async move { settled(&*deliver, &key, 1).await })
        });
        let told = futures_util::future::join_all(deliveries).await;
        let told = told.into_iter().map(|told| told.unwrap_or_else(|error| Err(error.to_string()))).collect();
        self.trial("delivered to a crowd at once", key, told).await
    }

    /// A job whose first worker dies at a boundary. None, if the worker never came there.
    async fn killed(&self, boundary: Boundary, turn: u64) -> Option<Trial> {
        let key = key("killed");
        let delivery = (self.deliver)(Delivery { key: key.clone(), token: 1 });
        if !kill::at(boundary, turn, delivery).await {
            return None;
        }
        let name = format!("killed {} ({turn})", boundary.name());
        let told = settled(&*self.deliver, &key, 2).await;
        Some(self.trial(&name, key, vec![told]).await)
    }

    /// Delivers once more, counts, and judges.
    async fn trial(&self, name: &str, key: Key, told: Vec<Result<Disposition, String>>) -> Trial {
        let again = settled(&*self.deliver, &key, 3).await;
        let effects = (self.effects)(key.clone()).await;
        let violation = self.promise.judge(effects, &told, &again);
        Trial { name: name.to_owned(), key, effects, violation }
    }
}

/// Delivers until the handler has settled the job, as a queue does. Every delivery after the first waits for its time.
async fn settled<D, DF>(deliver: &D, key: &Key, token: u64) -> Result<Disposition, String>
where
    D: Fn(Delivery) -> DF,
    DF: Future<Output = Disposition>,
{
    let mut last = String::new();
    for _ in 0..DELIVERIES {
        let pause = match deliver(Delivery { key: key.clone(), token }).await {
            Disposition::Defer { until } => until.remaining.max(PAUSE),
            Disposition::Fail { error, retryable: true } => {
                last = error;
                PAUSE
            }
            end => return Ok(end),
        };
        tokio::time::sleep(pause).await;
    }
    Err(format!("it was not settled in {DELIVERIES} deliveries: {last}"))
}

/// A key that no other trial has.
fn key(what: &str) -> Key {
    let key = format!("{what}-{}", crate::store::Owner::random());
    Key::new(key).expect("words and digits make a key")
}

fn is_applied(told: &Disposition) -> bool {
    matches!(told, Disposition::Ack { receipt: Receipt::Applied, .. })
}
