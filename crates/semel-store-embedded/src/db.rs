//! SQL, all of it that the engine uses while it runs: prepared once, called by name.

use rusqlite::{Connection, OptionalExtension, Statement, params};
use semel_core::ids::JobId;
use semel_core::time::Timestamp;

type Sql<T> = rusqlite::Result<T>;

/// SQL integers are signed; ids and times never use the sign bit.
pub(crate) fn sql(value: u64) -> i64 {
    value.cast_signed()
}

/// A job's id as SQL has it.
pub(crate) fn sql_id(id: JobId) -> i64 {
    sql(id.raw())
}

/// A job's id from SQL. A negative one can only be damage.
pub(crate) fn job_id(raw: i64) -> Sql<JobId> {
    JobId::from_raw(raw.cast_unsigned()).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, raw))
}

/// A table of records by id.
pub(crate) struct Rows<'c> {
    insert: Statement<'c>,
    replace: Statement<'c>,
    delete: Statement<'c>,
    get: Statement<'c>,
}

impl<'c> Rows<'c> {
    fn prepare(conn: &'c Connection, table: &str) -> Sql<Self> {
        Ok(Self {
            insert: conn.prepare(&format!("INSERT INTO {table}(id, rec) VALUES(?1, ?2)"))?,
            replace: conn.prepare(&format!("INSERT OR REPLACE INTO {table}(id, rec) VALUES(?1, ?2)"))?,
            delete: conn.prepare(&format!("DELETE FROM {table} WHERE id = ?1"))?,
            get: conn.prepare(&format!("SELECT rec FROM {table} WHERE id = ?1"))?,
        })
    }

    pub(crate) fn insert(&mut self, id: JobId, rec: &[u8]) -> Sql<()> {
        self.insert.execute(params![sql_id(id), rec]).map(|_| ())
    }

    pub(crate) fn put(&mut self, id: JobId, rec: &[u8]) -> Sql<()> {
        self.replace.execute(params![sql_id(id), rec]).map(|_| ())
    }

    pub(crate) fn put_no(&mut self, no: u32, rec: &[u8]) -> Sql<()> {
        self.replace.execute(params![i64::from(no), rec]).map(|_| ())
    }

    pub(crate) fn delete(&mut self, id: JobId) -> Sql<bool> {
        self.delete.execute([sql_id(id)]).map(|n| n > 0)
    }

    /// Hands the record to `read` without copying it first.
    pub(crate) fn get<T>(&mut self, id: JobId, read: impl FnOnce(&[u8]) -> T) -> Sql<Option<T>> {
        let mut rows = self.get.query([sql_id(id)])?;
        match rows.next()? {
            Some(row) => Ok(Some(read(row.get_ref(0)?.as_blob()?))),
            None => Ok(None),
        }
    }
}

/// A sealed list of backlog ids, as its row has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkRow {
    pub(crate) queue: u32,
    pub(crate) first: JobId,
    pub(crate) last: JobId,
    pub(crate) n: u32,
}

/// The connection of the engine and its statements.
pub(crate) struct Db<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) job: Rows<'c>,
    pub(crate) live: Rows<'c>,
    pub(crate) done: Rows<'c>,
    pub(crate) dead: Rows<'c>,
    pub(crate) trace: Rows<'c>,
    pub(crate) queue: Rows<'c>,
    pub(crate) counter: Rows<'c>,
    begin: Statement<'c>,
    begin_read: Statement<'c>,
    commit: Statement<'c>,
    ordered_insert: Statement<'c>,
    ordered_delete: Statement<'c>,
    ordered_ready: Statement<'c>,
    ordered_rank: Statement<'c>,
    ordered_first: Statement<'c>,
    chunk_insert: Statement<'c>,
    chunk_delete: Statement<'c>,
    chunk_get: Statement<'c>,
    meta_put: Statement<'c>,
}

impl<'c> Db<'c> {
    pub(crate) fn prepare(conn: &'c Connection) -> Sql<Self> {
        Ok(Self {
            conn,
            job: Rows::prepare(conn, "job")?,
            live: Rows::prepare(conn, "live")?,
            done: Rows::prepare(conn, "done")?,
            dead: Rows::prepare(conn, "dead")?,
            trace: Rows::prepare(conn, "trace")?,
            queue: Rows::prepare(conn, "queue")?,
            counter: Rows::prepare(conn, "counter")?,
            begin: conn.prepare("BEGIN IMMEDIATE")?,
            begin_read: conn.prepare("BEGIN")?,
            commit: conn.prepare("COMMIT")?,
            ordered_insert: conn.prepare("INSERT INTO ordered VALUES(?1, ?2, ?3, ?4)")?,
            ordered_delete: conn
                .prepare("DELETE FROM ordered WHERE queue = ?1 AND rank = ?2 AND due = ?3 AND id = ?4")?,
            ordered_ready: conn.prepare(
                "SELECT due, id FROM ordered WHERE queue = ?1 AND rank = ?2 AND due <= ?3 ORDER BY due, id",
            )?,
            ordered_rank: conn
                .prepare("SELECT rank FROM ordered WHERE queue = ?1 AND rank >= ?2 ORDER BY rank LIMIT 1")?,
            ordered_first: conn
                .prepare("SELECT due, id FROM ordered WHERE queue = ?1 AND rank = ?2 ORDER BY due, id")?,
            chunk_insert: conn
                .prepare("INSERT INTO chunk(first, queue, last, n, rec) VALUES(?1, ?2, ?3, ?4, ?5)")?,
            chunk_delete: conn.prepare("DELETE FROM chunk WHERE first = ?1")?,
            chunk_get: conn.prepare("SELECT rec FROM chunk WHERE first = ?1")?,
            meta_put: conn.prepare("UPDATE meta SET value = ?2 WHERE name = ?1")?,
        })
    }

    pub(crate) fn begin(&mut self) -> Sql<()> {
        self.begin.execute([]).map(|_| ())
    }

    /// Starts a transaction that only reads: without one, every single read would lock and unlock the file.
    pub(crate) fn begin_read(&mut self) -> Sql<()> {
        self.begin_read.execute([]).map(|_| ())
    }

    /// Makes the transaction durable: the log is synced before this returns.
    pub(crate) fn commit(&mut self) -> Sql<()> {
        self.commit.execute([]).map(|_| ())
    }

    /// Takes the transaction back, if SQLite has not done so already.
    pub(crate) fn rollback(&mut self) -> Sql<()> {
        if self.conn.is_autocommit() { Ok(()) } else { self.conn.execute_batch("ROLLBACK") }
    }

    pub(crate) fn order(&mut self, queue: u32, rank: u8, due: Timestamp, id: JobId) -> Sql<()> {
        self.ordered_insert.execute(params![queue, rank, sql(due.millis()), sql_id(id)]).map(|_| ())
    }

    pub(crate) fn unorder(&mut self, queue: u32, rank: u8, due: Timestamp, id: JobId) -> Sql<bool> {
        self.ordered_delete.execute(params![queue, rank, sql(due.millis()), sql_id(id)]).map(|n| n > 0)
    }

    /// Ready jobs of one rank in order, as far as `take` wants them: it says whether to go on.
    pub(crate) fn each_ready(
        &mut self,
        queue: u32,
        rank: u8,
        now: Timestamp,
        mut take: impl FnMut(Timestamp, JobId) -> bool,
    ) -> Sql<()> {
        let mut rows = self.ordered_ready.query(params![queue, rank, sql(now.millis())])?;
        while let Some(row) = rows.next()? {
            let due = Timestamp::from_millis(row.get::<_, i64>(0)?.cast_unsigned());
            if !take(due, job_id(row.get(1)?)?) {
                break;
            }
        }
        Ok(())
    }

    /// The smallest rank at or above `from` that has a job.
    pub(crate) fn rank_from(&mut self, queue: u32, from: u8) -> Sql<Option<u8>> {
        self.ordered_rank.query_row(params![queue, from], |row| row.get(0)).optional()
    }

    /// The first job of a rank, ready or not, that passes `wanted`.
    pub(crate) fn first_of_rank(
        &mut self,
        queue: u32,
        rank: u8,
        mut wanted: impl FnMut(JobId) -> bool,
    ) -> Sql<Option<Timestamp>> {
        let mut rows = self.ordered_first.query(params![queue, rank])?;
        while let Some(row) = rows.next()? {
            if wanted(job_id(row.get(1)?)?) {
                return Ok(Some(Timestamp::from_millis(row.get::<_, i64>(0)?.cast_unsigned())));
            }
        }
        Ok(None)
    }

    pub(crate) fn put_chunk(&mut self, chunk: ChunkRow, rec: &[u8]) -> Sql<()> {
        let ChunkRow { queue, first, last, n } = chunk;
        self.chunk_insert.execute(params![sql_id(first), queue, sql_id(last), n, rec]).map(|_| ())
    }

    pub(crate) fn delete_chunk(&mut self, first: JobId) -> Sql<()> {
        self.chunk_delete.execute([sql_id(first)]).map(|_| ())
    }

    pub(crate) fn chunk(&mut self, first: JobId) -> Sql<Option<Vec<u8>>> {
        self.chunk_get.query_row([sql_id(first)], |row| row.get(0)).optional()
    }

    pub(crate) fn chunks(&self) -> Sql<Vec<ChunkRow>> {
        let mut all = self.conn.prepare("SELECT queue, first, last, n FROM chunk ORDER BY first")?;
        let rows = all.query_map([], |row| {
            Ok(ChunkRow {
                queue: row.get(0)?,
                first: job_id(row.get(1)?)?,
                last: job_id(row.get(2)?)?,
                n: row.get(3)?,
            })
        })?;
        rows.collect()
    }

    pub(crate) fn meta(&self, name: &str) -> Sql<u64> {
        self.conn
            .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get::<_, i64>(0))
            .map(i64::cast_unsigned)
    }

    pub(crate) fn put_meta(&mut self, name: &str, value: u64) -> Sql<()> {
        self.meta_put.execute(params![name, sql(value)]).map(|_| ())
    }

    /// Whether a table has no more than `n` rows within a range, both ends included. Looks no further than that.
    pub(crate) fn at_most_between(&self, table: &str, from: JobId, to: JobId, n: usize) -> Sql<bool> {
        let select = format!("SELECT 1 FROM {table} WHERE id BETWEEN ?1 AND ?2 LIMIT 1 OFFSET ?3");
        let mut beyond = self.conn.prepare_cached(&select)?;
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        Ok(!beyond.exists(params![sql_id(from), sql_id(to), n])?)
    }

    /// Deletes the rows of a table within a range, both ends included.
    pub(crate) fn delete_between(&self, table: &str, from: JobId, to: JobId) -> Sql<()> {
        let mut delete =
            self.conn.prepare_cached(&format!("DELETE FROM {table} WHERE id BETWEEN ?1 AND ?2"))?;
        delete.execute([sql_id(from), sql_id(to)]).map(|_| ())
    }

    /// Ids of a table within a range, both ends included.
    pub(crate) fn ids_between(&self, table: &str, from: JobId, to: JobId) -> Sql<Vec<JobId>> {
        let mut stmt =
            self.conn.prepare_cached(&format!("SELECT id FROM {table} WHERE id BETWEEN ?1 AND ?2"))?;
        let rows = stmt.query_map([sql_id(from), sql_id(to)], |row| job_id(row.get(0)?))?;
        rows.collect()
    }
}
