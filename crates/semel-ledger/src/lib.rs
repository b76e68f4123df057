//! Effects that happen once: a ledger for workers, behind any queue.
//!
//! Every queue delivers again: a worker dies between doing the work and saying so, a lease runs out, a dead letter is
//! replayed. A [`Ledger`] writes the effect of a job down *with* the effect, under the job's key, so that the second delivery
//! is a no-op that gets the first one's result.
//!
//! ```
//! use semel_ledger::{Call, Failure, Intent, Ledger, Memory, Verdict};
//!
//! /// Charges at a provider that takes an idempotency key.
//! async fn charge(intent: Intent) -> Result<String, Failure<std::io::Error>> {
//!     // The same key on every attempt, so the provider answers with the first outcome:
//!     // client.post("/charges").header("Idempotency-Key", intent.downstream_key())
//!     Ok(format!("ch_{}", &intent.downstream_key()[6..12]))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ledger = Ledger::builder(Memory::new(), "billing").build()?;
//!
//! // In the handler: the key comes with the job, from whoever published it.
//! let call = Call::new("charge-order-9482")?.input(&serde_json::json!({"amount": 1000}))?;
//! let first = match ledger.intent(&call).run(charge).await? {
//!     Verdict::Applied(charge) => charge,                // it happened now: acknowledge
//!     Verdict::Replayed(charge) => charge,               // it had happened: acknowledge
//!     Verdict::InProgress { .. } => return Ok(()),       // another delivery is at it: defer
//!     Verdict::OutcomeUnknown { .. } => return Ok(()),   // for a person: dead letters
//! };
//!
//! // The same job, delivered again.
//! assert_eq!(ledger.intent(&call).run(charge).await?, Verdict::Replayed(first));
//!
//! // The same key for something else.
//! let other = Call::new("charge-order-9482")?.input(&serde_json::json!({"amount": 2000}))?;
//! let collision = ledger.intent(&other).run(charge).await.unwrap_err();
//! assert_eq!(collision.to_string(), "the key was used with another input: amount differs");
//! # Ok(()) }
//! ```
//!
//! # Choose a mode
//!
//! | the effect | mode | what a crash leaves |
//! |---|---|---|
//! | rows in a database you own | `transact`, of [`postgres`], [`sqlite`] and [`mysql`] | nothing: key, effect and result commit or roll back together |
//! | a call to a service that takes an idempotency key | [`Ledger::intent`] | an intent; the next delivery repeats the call with the same key |
//! | a call to a service that can be asked | [`Ledger::intent`] with [`IntentRun::reconcile`] | an intent; the service is asked before anything is sent again |
//! | something that can be seen to be there | [`Ledger::ask`] | as above; it is looked at every time |
//! | a call to a service with neither | [`Ledger::at_most_once`] | recorded, maybe not sent |
//! | an effect that is idempotent itself | [`Ledger::seen`], [`Ledger::first`] | it may run again, which is harmless |
//! | several of these in one job | [`Ledger::steps`] | finished steps are not repeated; a job that is given up is undone in reverse |
//!
//! # What every mode gives
//!
//! - A [`Verdict`], and a duplicate gets the first run's result. [`handler`] turns it into ack and receipt, defer or fail.
//! - A claim has an owner and a token; a worker that stalled past its lease cannot record, release or overwrite anything.
//!   Leases are renewed while the effect runs.
//! - Time is the store's clock. A store that fails is an error, and nothing is done.
//! - Entries belong to a consumer, expire ([`Builder::ttl`]) and are pruned in bites ([`Ledger::prune`]).
//! - [`events`] for `tracing` and for metrics; a cache of completed keys; lookups in batches.
//! - [`testkit`] proves all of this of *your* handler.
//!
//! # Stores
//!
//! [`Memory`] is always there. `tokio-postgres`, `sqlx-postgres`, `sqlx-mysql`, `rusqlite` and `redis` are features, named after
//! the driver that an application has already. Layouts and scripts are files in `ledger/` at the top of the repository, shared
//! with other languages; [`store::Store`] is the law that all of them keep.

mod ask;
mod at_most_once;
mod attempt;
mod boundary;
mod cache;
mod call;
mod error;
pub mod events;
mod fingerprint;
pub mod handler;
mod intent;
mod key;
mod ledger;
mod memory;
#[cfg(feature = "sqlx-mysql")]
pub mod mysql;
#[cfg(doctest)]
mod pages;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
pub mod postgres;
mod prune;
#[cfg(feature = "redis")]
pub mod redis;
mod renewal;
mod resolve;
pub mod rules;
#[cfg(any(
    feature = "tokio-postgres",
    feature = "sqlx-postgres",
    feature = "sqlx-mysql",
    feature = "rusqlite"
))]
mod schema;
mod seen;
#[cfg(feature = "rusqlite")]
pub mod sqlite;
mod steps;
pub mod store;
#[cfg(feature = "testkit")]
pub mod suite;
#[cfg(feature = "testkit")]
pub mod testkit;
mod time;
#[cfg(any(
    feature = "tokio-postgres",
    feature = "sqlx-postgres",
    feature = "sqlx-mysql",
    feature = "rusqlite"
))]
mod transactional;
mod verdict;

pub use at_most_once::AtMostOnceRun;
pub use boundary::Boundary;
pub use call::Call;
pub use error::{Error, Failure, StoreError, StoreErrorKind};
pub use fingerprint::Fingerprint;
pub use intent::{Asking, Found, Intent, IntentRun, Nobody, Reconcile};
pub use key::{Consumer, Key, KeyError, MAX_KEY, MAX_NAME, Scope, Step};
pub use ledger::{BuildError, Builder, DEFAULT_CACHE, DEFAULT_LEASE, DEFAULT_PATIENCE, DEFAULT_TTL, Ledger};
pub use memory::Memory;
pub use prune::Prune;
pub use seen::{Seen, SeenRun};
pub use steps::{Begun, Compensate, Halt, NoUndo, StepRun, Steps, StepsRun, Undo, Undoing};
pub use time::{Moment, Until, millis};
#[cfg(any(
    feature = "tokio-postgres",
    feature = "sqlx-postgres",
    feature = "sqlx-mysql",
    feature = "rusqlite"
))]
pub use transactional::{Begin, New};
pub use verdict::Verdict;
