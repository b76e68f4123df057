//! The file's format: tables, version, settings of a connection.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use semel_store::StoreError;

/// The version of the format this program writes. A fixture of every version ever released stays in the tests.
pub(crate) const FORMAT: i32 = 1;
/// Marks the file as Semel's for `file(1)` and for us: "SMEL".
const APPLICATION_ID: i32 = 0x534d_454c;
/// Name of the database file in the store's directory.
pub(crate) const DB_FILE: &str = "semel.db";
/// Name of its log, which SQLite keeps beside it.
pub(crate) const LOG_FILE: &str = "semel.db-wal";
/// Name of the folder with the key index.
pub(crate) const KEYS_DIR: &str = "keys";

/// Pages are 4 KiB: one disk block, and three or four plain jobs.
pub(crate) const PAGE_SIZE: u32 = 4096;

/// The tables. `job` is the truth and is only appended to; a job's progress is in at most one of `live`, `done` and
/// `dead`, and a job in none of them is as fresh as it was published. Everything else is derived or small.
const TABLES: &str = "
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE secret(name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE job(id INTEGER PRIMARY KEY, rec BLOB NOT NULL);
CREATE TABLE live(id INTEGER PRIMARY KEY, rec BLOB NOT NULL);
CREATE TABLE done(id INTEGER PRIMARY KEY, rec BLOB NOT NULL);
CREATE TABLE dead(id INTEGER PRIMARY KEY, rec BLOB NOT NULL);
CREATE TABLE trace(id INTEGER PRIMARY KEY, rec BLOB NOT NULL);
CREATE TABLE ordered(queue INTEGER NOT NULL, rank INTEGER NOT NULL, due INTEGER NOT NULL, id INTEGER NOT NULL,
                     PRIMARY KEY(queue, rank, due, id)) WITHOUT ROWID;
CREATE TABLE grouped(queue INTEGER NOT NULL, grp TEXT NOT NULL, waiting INTEGER NOT NULL, turn INTEGER NOT NULL,
                     id INTEGER NOT NULL, PRIMARY KEY(queue, grp, waiting, turn, id)) WITHOUT ROWID;
CREATE TABLE chunk(first INTEGER PRIMARY KEY, queue INTEGER NOT NULL, last INTEGER NOT NULL, n INTEGER NOT NULL,
                   rec BLOB NOT NULL);
CREATE TABLE queue(id INTEGER PRIMARY KEY, rec BLOB NOT NULL);
CREATE TABLE counter(id INTEGER PRIMARY KEY, rec BLOB NOT NULL);
CREATE TABLE schedule(name TEXT PRIMARY KEY, rec BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE api_key(name TEXT PRIMARY KEY, rec BLOB NOT NULL) WITHOUT ROWID;
";

/// Tables that came after the first stores of this format were written. A store that lacks one gets it, empty, when it is
/// opened for work: a program that does not know the table does not miss it, so the format stays the same. Whoever only
/// looks at a store (`check`, `stats`) changes nothing and may meet one without them.
const LATER_TABLES: &str = "
CREATE TABLE IF NOT EXISTS replay(name TEXT PRIMARY KEY, rec BLOB NOT NULL) WITHOUT ROWID;
";

/// Names in `meta`.
pub(crate) mod meta {
    /// Raised by one at every open, before the first token of it is handed out.
    pub(crate) const EPOCH: &str = "epoch";
    /// Plain jobs up to this id are in chunks if they are still pending; later ones are found by reading `job`.
    pub(crate) const SEALED_TO: &str = "sealed_to";
    /// No job row at or below this id is left, so the key index need not reach below it.
    pub(crate) const FLOOR: &str = "floor";
    /// The largest id ever handed out, so that ids never come back after rows are pruned.
    pub(crate) const LAST_ID: &str = "last_id";
}

/// Makes a new database. The caller has made sure that there is none.
pub(crate) fn create(path: &Path, key_secret: [u8; 16]) -> Result<(), StoreError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let make = || -> rusqlite::Result<()> {
        conn.pragma_update(None, "page_size", PAGE_SIZE)?;
        use_log(&conn)?;
        conn.pragma_update(None, "synchronous", "full")?;
        let tx = conn.unchecked_transaction()?;
        tx.execute_batch(TABLES)?;
        tx.execute_batch(LATER_TABLES)?;
        tx.execute("INSERT INTO secret VALUES('key_hash', ?1)", [&key_secret[..]])?;
        for name in [meta::EPOCH, meta::SEALED_TO, meta::FLOOR, meta::LAST_ID] {
            tx.execute("INSERT INTO meta VALUES(?1, 0)", [name])?;
        }
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", FORMAT)?;
        tx.commit()
    };
    make().map_err(|e| StoreError::Open(format!("cannot create {}: {e}", path.display())))
}

/// Opens a database that exists and checks that it is one of ours, of a version we know.
pub(crate) fn open(path: &Path) -> Result<Connection, StoreError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    check_identity(&conn, path)?;
    keep_log(&conn, path)?;
    let settle = || -> rusqlite::Result<()> {
        use_log(&conn)?;
        // FULL syncs the log at every commit. NORMAL does not, and loses what was acknowledged in a power cut.
        conn.pragma_update(None, "synchronous", "full")?;
        // Checkpoints are made on purpose, by a thread of their own, not inside somebody's commit.
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        conn.pragma_update(None, "cache_size", -32 * 1024)?;
        conn.pragma_update(None, "temp_store", "memory")?;
        conn.pragma_update(None, "cell_size_check", true)
    };
    settle().map_err(|e| open_error(path, &e))?;
    Ok(conn)
}

/// Adds the tables that an older store of this format lacks. It writes nothing if they are there.
pub(crate) fn complete(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    conn.execute_batch(LATER_TABLES).map_err(|e| open_error(path, &e))
}

/// Opens a second connection that only reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    check_identity(&conn, path)?;
    keep_log(&conn, path)?;
    Ok(conn)
}

/// Switches to the log, or fails: SQLite answers with the mode it is in, and stays in the old one if it has to.
fn use_log(conn: &Connection) -> rusqlite::Result<()> {
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode == "wal" {
        Ok(())
    } else {
        Err(rusqlite::Error::InvalidParameterName(format!("journal mode {mode}")))
    }
}

/// The last connection to close would move the log into the database and delete it. We do that on purpose, or not at all.
fn keep_log(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let kept = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    kept.map(|_| ()).map_err(|e| open_error(path, &e))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|e| open_error(path, &e))
}

fn check_identity(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, format) = pragma("application_id")
        .and_then(|a| Ok((a, pragma("user_version")?)))
        .map_err(|e| open_error(path, &e))?;
    if application != APPLICATION_ID {
        return Err(StoreError::Open(format!("{} is not a Semel store", path.display())));
    }
    if format != FORMAT {
        return Err(StoreError::Open(format!(
            "{} has format {format}, this program knows format {FORMAT}: use the program that wrote it, or a newer one",
            path.display()
        )));
    }
    Ok(())
}

fn open_error(path: &Path, e: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match e.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => StoreError::Corrupt(format!("{}: {e}", path.display())),
        _ => StoreError::Open(format!("cannot open {}: {e}", path.display())),
    }
}
