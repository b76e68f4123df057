//! The Store: the wall between Semel's rules and the places where jobs are kept.
//!
//! [`Store`] is written as law; every backend subscribes to one conformance suite (feature `conformance`) that decides
//! whether it keeps the law. [`MemoryStore`] is the reference, and the model in the model test. [`GroupCommit`] sits
//! above the trait, once, and turns concurrent callers into few commits.

pub mod batcher;
pub mod clock;
pub mod command;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod group_commit;
pub mod health;
pub mod memory;
#[cfg(feature = "conformance")]
pub mod model;
pub mod observed;
pub mod progress;
pub mod query;
pub mod shared;
pub mod stats;
pub mod store;
pub mod transfer;

pub use clock::{Clock, ManualClock, SystemClock};
pub use command::{Answer, Command, Reply, Rescued};
pub use error::StoreError;
pub use group_commit::{GroupCommit, Overloaded};
pub use health::Health;
pub use memory::{MemoryStore, working};
pub use observed::Observed;
pub use progress::{Progress, Watcher};
pub use query::{Cursor, JobQuery, KeyRecord, Page, Suppressed};
pub use shared::Shared;
pub use stats::{QueueStats, Stats};
pub use store::Store;
