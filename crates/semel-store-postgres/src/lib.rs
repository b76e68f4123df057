//! Semel's PostgreSQL store: as many nodes as one likes over one database.
//!
//! A backend only reads, decides by `semel-core`, and writes. This one loads the rows that a batch is about into a working
//! set, applies the commands there as the memory store would, and writes the difference, in one transaction of two round
//! trips. ARCHITECTURE.md has the whole picture; `migrations/` has the tables.

mod address;
mod apply;
mod catalog;
mod clock;
mod connect;
mod days;
pub mod doctor;
mod fault;
mod flight;
mod handed_out;
mod hosts;
pub mod import;
mod join;
mod law;
mod lease;
mod locks;
mod migrate;
mod nodes;
mod options;
mod patience;
mod peers;
mod prune;
mod read;
mod reign;
mod row;
#[cfg(test)]
mod scratch;
mod session;
mod store;
mod survey;
mod tls;

pub use migrate::{MIGRATIONS, Migration, migrate, pending};
pub use options::Options;
pub use peers::{Roster, nodes};
pub use store::PostgresStore;
