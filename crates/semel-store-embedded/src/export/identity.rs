//! Which store this is, and which state of it: two walks belong together only if both are the same.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use semel_store::transfer::Origin;
use xxhash_rust::xxh3::Xxh3;

use crate::fault::Fault;
use crate::keys::KeyHasher;

/// Small tables of which every row counts. A store cannot be opened for work without its epoch in `meta` changing.
const SMALL: [&str; 6] = ["meta", "queue", "counter", "schedule", "api_key", "replay"];
/// Large ones, of which the newest row has to do.
const LARGE: [&str; 5] = ["job", "live", "done", "dead", "trace"];

/// Tells the store in `dir` from every other, and from itself after a change.
pub(super) fn origin(conn: &Connection, dir: &Path) -> Result<Origin, Fault> {
    let place = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    Ok(Origin { place: place.display().to_string(), store: store(conn)?, state: state(conn)? })
}

/// Made of the random secret that every store has from its making, which must not be told itself.
fn store(conn: &Connection) -> Result<String, Fault> {
    let secret: Vec<u8> =
        conn.query_row("SELECT value FROM secret WHERE name = 'key_hash'", [], |row| row.get(0))?;
    let secret =
        secret.try_into().map_err(|_| Fault::Broken("the secret of the key hash is damaged".into()))?;
    // No queue has the number zero, so no key has this hash.
    Ok(format!("{:016x}", KeyHasher::new(secret).hash(0, "semel move")))
}

fn state(conn: &Connection) -> Result<String, Fault> {
    let mut digest = Xxh3::new();
    for table in SMALL {
        if conn.table_exists(None, table)? {
            add(conn, &format!("SELECT * FROM {table} ORDER BY 1"), &mut digest)?;
        }
    }
    for table in LARGE {
        add(conn, &format!("SELECT id, rec FROM {table} ORDER BY id DESC LIMIT 1"), &mut digest)?;
    }
    Ok(format!("{:016x}", digest.digest()))
}

/// Adds all cells that a statement gives, each with its length, so that none runs into the next.
fn add(conn: &Connection, select: &str, digest: &mut Xxh3) -> Result<(), Fault> {
    let mut rows = conn.prepare(select)?;
    let columns = rows.column_count();
    let mut rows = rows.query([])?;
    digest.update(select.as_bytes());
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            let number;
            let cell: &[u8] = match row.get_ref(column)? {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
                ValueRef::Integer(value) => {
                    number = value.to_le_bytes();
                    &number
                }
                ValueRef::Null | ValueRef::Real(_) => &[],
            };
            digest.update(&cell.len().to_le_bytes());
            digest.update(cell);
        }
    }
    Ok(())
}
