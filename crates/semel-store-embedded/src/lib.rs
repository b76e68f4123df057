//! Semel's embedded store: one process, one directory, durable before it answers.
//!
//! SQLite in a lean append-only layout: what was published is appended once and never rewritten, leases are in memory,
//! plain jobs need no index, and the idempotency keys are found through an index of our own ([`keys`]) because a B-tree
//! would rewrite a page per random key. ARCHITECTURE.md has the whole picture.

mod backlog;
pub mod backup;
pub mod check;
mod checkpoint;
mod db;
mod engine;
pub mod export;
mod fault;
pub mod inspect;
pub mod keys;
mod leases;
mod lock;
mod log;
mod maintenance;
mod options;
mod queues;
mod reads;
pub mod rebuild;
mod record;
mod schema;
mod space;
mod store;
mod thread;
mod unclosed;

pub use maintenance::{Progress, Watcher};
pub use options::{Options, Sabotage};
pub use store::EmbeddedStore;
