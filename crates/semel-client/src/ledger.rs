//! Handlers whose effects happen once: the ties between deliveries and `semel-ledger`.
//!
//! ```no_run
//! # async fn example(client: &semel_client::http::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use semel_client::ledger::Once;
//! use semel_client::worker::Worker;
//! use semel_ledger::{Failure, Ledger, Memory};
//!
//! let ledger = Ledger::builder(Memory::new(), "billing").build()?;
//! let charge = Once::new(move |delivery, call| {
//!     let ledger = ledger.clone();
//!     async move {
//!         ledger
//!             .intent(&call)
//!             .run(|intent| async move {
//!                 // The same key on every attempt: the provider answers with the first charge.
//!                 println!("charge {} under {}", delivery.key(), intent.downstream_key());
//!                 Ok::<_, Failure<std::io::Error>>("ch_1".to_owned())
//!             })
//!             .await
//!     }
//! });
//! Worker::new(client, "charges").run(charge, std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | the ledger says | the queue is told |
//! |---|---|
//! | applied, replayed | done, with the receipt and the first run's result |
//! | in progress | later: this job waits until the other delivery's claim is over, and no attempt is burned |
//! | unknown outcome, collision | failed, and no other attempt can help: a person has to look |
//! | the effect failed, the store is away | failed; another attempt may succeed |

use std::fmt::Display;

use semel_ledger::handler::{Disposition, Handler as Policy, Job, Receipt as Told};
use semel_ledger::{Call, Error, Verdict};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Delivery, Effect, Handler, Outcome};

/// A handler that asks a ledger. It works on pulled deliveries and in a webhook alike.
#[derive(Debug, Clone)]
pub struct Once<F> {
    work: F,
    policy: Policy,
}

impl<F> Once<F> {
    /// Around `work`, which gets a delivery and what to tell the ledger about it, and chooses the mode.
    ///
    /// The ledger is told the sender's key ([`Delivery::key`]) and the token of the lease, so that a delivery that was
    /// overtaken by a later one can commit nothing.
    pub fn new<R, T, E>(work: F) -> Self
    where
        F: Fn(Delivery, Call) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Verdict<T>, Error<E>>> + Send,
    {
        Self { work, policy: Policy::new() }
    }

    /// With another view of payloads and unknown outcomes than the usual one.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }
}

impl<F, R, T, E> Handler for Once<F>
where
    F: Fn(Delivery, Call) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Verdict<T>, Error<E>>> + Send,
    T: Serialize + Send,
    E: Display + Send,
{
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let key = delivery.key().to_owned();
        match self.policy.call(&delivery.job()) {
            Ok(call) => outcome(self.policy.disposition((self.work)(delivery, call).await), &key),
            Err(error) => Outcome::reject(error),
        }
    }
}

impl Delivery {
    /// The delivery as a ledger's handler sees it.
    pub fn job(&self) -> Job<'_> {
        let payload = self.raw_payload.as_deref().map_or("null", RawValue::get);
        Job { key: Some(self.key()), token: self.token(), payload: payload.as_bytes() }
    }
}

/// What the queue is told about a delivery whose effect is recorded under this key.
pub fn outcome(disposition: Disposition, key: &str) -> Outcome {
    match disposition {
        Disposition::Ack { receipt, result } => {
            let result = result.and_then(|result| RawValue::from_string(result).ok());
            Outcome::done_with_raw(result).receipt(effect(receipt), Some(key))
        }
        Disposition::Defer { until } => {
            Outcome::defer(until.remaining).because("another delivery of this job is at work")
        }
        Disposition::Fail { error, retryable: true } => Outcome::fail(error),
        Disposition::Fail { error, retryable: false } => Outcome::reject(error),
    }
}

fn effect(told: Told) -> Effect {
    match told {
        Told::Applied => Effect::Applied,
        Told::Replayed => Effect::Replayed,
        Told::None => Effect::None,
    }
}
