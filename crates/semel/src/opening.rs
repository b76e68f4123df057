//! Opening a store from a command line: blocking, with what a person needs to know when it fails.

use std::path::Path;
use std::sync::Arc;

use semel_server::config::Config;
use semel_server::credentials::Secret;
use semel_server::peers::Identity;
use semel_store::Clock;
use semel_store_embedded::{EmbeddedStore, Options};
use semel_store_postgres::PostgresStore;
use semel_store_postgres::import::name_of;
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;
use crate::host::Place;
use crate::text;

/// A store that is empty takes less. Where not even this is free, that is most likely why it cannot be opened, which SQLite
/// calls an I/O error.
const LEAST_FREE: u64 = 256 * 1024;

/// Opens the store in `dir`, making an empty one if there is none.
pub(crate) fn store(dir: &Path, options: Options) -> Result<EmbeddedStore, Failure> {
    EmbeddedStore::open(dir, options).map_err(|error| match free_on(dir) {
        Some(free) if free < LEAST_FREE => Failure::Usage(format!(
            "{}; the disk is full ({} are free): make room, or name another directory",
            Failure::store(dir)(error),
            text::bytes(free)
        )),
        _ => Failure::store(dir)(error),
    })
}

/// How much is free on the disk of a directory, or of what is to hold it.
fn free_on(dir: &Path) -> Option<u64> {
    let there = dir.ancestors().find(|dir| dir.is_dir())?;
    let disk = rustix::fs::statvfs(there).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Opens the store in the database at `url`, as a node that is called as the configuration says.
pub(crate) async fn database(url: &Secret, config: &Config) -> Result<Place, Failure> {
    let Identity { name: node_name, address: node_address } = config.identity();
    let options = semel_store_postgres::Options {
        node_name,
        node_address,
        listen_url: config.store.listen_url.as_ref().map(|url| url.expose().to_owned()),
        migrate: config.store.migrate,
        connections: config.store.connections,
        prepare: config.store.prepare,
        ..semel_store_postgres::Options::default()
    };
    let name = database_name(url.expose())?;
    let opened = PostgresStore::open(url.expose(), options).await.map_err(Failure::database(&name))?;
    let store = Arc::new(opened);
    Ok(Place { name, store: store.clone(), shared: Some(store) })
}

/// What people call the database at `url`: where it is, without a password.
pub(crate) fn database_name(url: &str) -> Result<String, Failure> {
    name_of(url).map_err(Failure::database("the database"))
}

/// The settings of a store that goes by `clock`, and is otherwise as everybody has it.
pub(crate) fn options(clock: Arc<dyn Clock>) -> Options {
    Options { clock, ..Options::default() }
}

/// A runtime of one thread for a command about a database.
pub(crate) fn database_runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::io("start a runtime"))
}

/// A runtime of one thread: the store has a thread of its own, and a command line has nothing else to do meanwhile.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().build().map_err(Failure::io("start a runtime"))
}
