//! A first look at the database: whether it can be a store, and if not, what to do about it.

use semel_store::StoreError;
use tokio_postgres::error::SqlState;

use crate::fault::Fault;
use crate::row::Cells;
use crate::session::{Link, Sql};

/// The oldest server whose SQL suffices: PostgreSQL 13.
const OLDEST_SERVER: i32 = 130_000;

/// Refuses a database that could not keep what a store promises.
pub(crate) async fn check(link: &Link) -> Result<(), StoreError> {
    let found = look(link).await.map_err(|fault| not_opened(&fault))?;
    let problem = if found.version < OLDEST_SERVER {
        format!("the server is too old ({}): PostgreSQL 13 is the oldest that works", found.version)
    } else if found.encoding != "UTF8" {
        format!(
            "the database is encoded in {}, which cannot hold every payload: make one with \
             CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
            found.encoding
        )
    } else if found.replica {
        is_replica()
    } else if found.synchronous_commit == "off" {
        "synchronous_commit is off, so the server would call durable what is not: \
         ALTER ROLE ... SET synchronous_commit = on"
            .to_owned()
    } else {
        warn_of_weak_settings(&found);
        return Ok(());
    };
    Err(StoreError::Open(problem))
}

/// What the server says of itself.
#[derive(Debug)]
struct Found {
    version: i32,
    encoding: String,
    replica: bool,
    synchronous_commit: String,
    fsync: String,
}

async fn look(link: &Link) -> Result<Found, Fault> {
    static LOOK: Sql = Sql {
        text: "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), \
               pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')",
        types: &[],
    };
    let row = link.query_one(&LOOK, &[]).await?;
    let mut cells = Cells::of(&row);
    Ok(Found {
        version: cells.take()?,
        encoding: cells.take()?,
        replica: cells.take()?,
        synchronous_commit: cells.take()?,
        fsync: cells.take()?,
    })
}

/// What a test cluster may do and a real one must not.
fn warn_of_weak_settings(found: &Found) {
    if found.fsync == "off" {
        tracing::warn!(
            "the server runs with fsync = off: a power cut loses acknowledged jobs, or the whole database"
        );
    }
}

/// What is said when the store could not be opened at all.
pub(crate) fn not_opened(fault: &Fault) -> StoreError {
    let advice = match fault {
        Fault::Refused { state, .. } if *state == SqlState::INVALID_CATALOG_NAME => {
            "make it first: createdb --encoding=UTF8 --template=template0 ..."
        }
        Fault::Refused { state, .. }
            if [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]
                .contains(state) =>
        {
            "check the user, the password and the server's pg_hba.conf"
        }
        Fault::Refused { state, .. } if *state == SqlState::INSUFFICIENT_PRIVILEGE => {
            "the role needs to own the schema semel, or CREATE on the database to make it"
        }
        Fault::Unreachable(what) if what.contains("unsupported startup parameter") => {
            "a pooler that gives every transaction another connection keeps no settings of a connection: open the store with \
             prepare = false"
        }
        Fault::Unreachable(what) if what.contains("does not allow writes") => {
            return StoreError::Open(is_replica());
        }
        Fault::Unreachable(_) | Fault::Lost(_) => {
            "check the address, and that the server runs and can be reached"
        }
        _ => "the server's log may say more",
    };
    StoreError::Open(format!("cannot open the database: {fault}; {advice}"))
}

fn is_replica() -> String {
    "the server is a replica and takes no writes: give the address of the primary, or of all servers \
     (postgres://user@one,two/database), of which the primary is found"
        .to_owned()
}
