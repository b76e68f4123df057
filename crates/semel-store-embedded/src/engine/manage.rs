//! The small records: queues and their secrets, schedules, API keys, replay tasks.

use rusqlite::{OptionalExtension, params};
use semel_core::breaker::Breaker;
use semel_core::name::QueueName;
use semel_core::queue::{QueueConfig, Rules};
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord, WebhookSecret, check_secrets};
use semel_core::refusal::Refusal;
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;
use semel_store::Reply;
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use super::{Engine, damaged};
use crate::fault::{Fault, No};
use crate::queues::{Counts, Queue, QueueRow};
use crate::record::{open_json, seal_json};

impl Engine<'_> {
    pub(super) fn put_queue(&mut self, name: QueueName, config: QueueConfig) -> Result<Reply, No> {
        let rules = Rules::new(config).map_err(Refusal::Invalid)?;
        let no = match self.queues.number(&name) {
            Some(no) => {
                let queue = self.queue_mut(no)?;
                if rules.config.breaker.is_none() {
                    queue.counts.gate.breaker = Breaker::default();
                }
                queue.rules = rules;
                self.open_all_groups(no)?;
                no
            }
            None => self.new_queue(name, rules),
        };
        self.write_queue(no)?;
        self.queue_mut(no)?;
        self.sweep.start_over();
        Ok(Reply::Done)
    }

    fn new_queue(&mut self, name: QueueName, rules: Rules) -> u32 {
        let no = self.queues.next_number();
        let row = QueueRow {
            name,
            config: rules.config.clone(),
            created_at: self.now,
            deleted: false,
            secrets: Vec::new(),
        };
        self.queues.insert(Queue::new(no, row, rules, Counts::default(), self.chunk_ids));
        no
    }

    fn write_queue(&mut self, no: u32) -> Result<(), Fault> {
        let row = self.queue(no)?.row();
        let rec = seal_json(&row, u64::from(no)).map_err(|e| Fault::Broken(e.to_string()))?;
        self.db.queue.put_no(no, &rec)?;
        Ok(())
    }

    pub(super) fn delete_queue(&mut self, name: &QueueName) -> Result<Reply, No> {
        let no = self.queues.number(name).ok_or_else(|| Refusal::QueueNotFound(name.clone()))?;
        let unfinished = self.queue(no)?.counts.unfinished;
        if unfinished > 0 {
            return Err(Refusal::QueueNotEmpty { queue: name.clone(), unfinished }.into());
        }
        self.queues.delete(no);
        self.write_queue(no)?;
        self.sweep.start_over();
        Ok(Reply::Done)
    }

    pub(super) fn put_secrets(&mut self, name: &QueueName, secrets: Vec<WebhookSecret>) -> Result<Reply, No> {
        check_secrets(&secrets).map_err(Refusal::Invalid)?;
        let no = self.queues.number(name).ok_or_else(|| Refusal::QueueNotFound(name.clone()))?;
        self.queue_mut(no)?.secrets = secrets;
        self.write_queue(no)?;
        Ok(Reply::Done)
    }

    pub(super) fn pause(&mut self, name: &QueueName, paused: bool) -> Result<Reply, No> {
        let no = self.queues.number(name).ok_or_else(|| Refusal::QueueNotFound(name.clone()))?;
        self.queue_mut(no)?.counts.gate.paused = paused;
        Ok(Reply::Done)
    }

    pub(super) fn put_schedule(&mut self, record: &ScheduleRecord) -> Result<Reply, No> {
        record.validate().map_err(Refusal::Invalid)?;
        self.require_queue(&record.queue)?;
        self.put_record("schedule", &record.name, record)
    }

    pub(super) fn advance_schedule(
        &mut self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Reply, No> {
        let mut record: ScheduleRecord = self.need_record("schedule", name)?;
        record.advance(from, to)?;
        self.put_record("schedule", name, &record)
    }

    pub(super) fn put_replay(&mut self, record: ReplayRecord) -> Result<Reply, No> {
        record.validate().map_err(Refusal::Invalid)?;
        self.require_queue(&record.queue)?;
        let kept = self.find_record("replay", &record.id)?;
        let record = record.following(kept.as_ref());
        self.put_record("replay", &record.id, &record)
    }

    fn require_queue(&self, name: &QueueName) -> Result<(), Refusal> {
        self.queues.number(name).map(|_| ()).ok_or_else(|| Refusal::QueueNotFound(name.clone()))
    }

    pub(super) fn put_api_key(&mut self, record: &ApiKeyRecord) -> Result<Reply, No> {
        record.validate().map_err(Refusal::Invalid)?;
        self.put_record("api_key", &record.id, record)
    }

    pub(super) fn touch_api_key(&mut self, id: &str, at: Timestamp) -> Result<Reply, No> {
        let mut record: ApiKeyRecord = self.need_record("api_key", id)?;
        record.touch(at);
        self.put_record("api_key", id, &record)
    }

    /// One record that a command needs: damage refuses the command and leaves the others alone.
    fn need_record<T: DeserializeOwned>(&self, table: &'static str, name: &str) -> Result<T, No> {
        self.find_record(table, name)?.ok_or_else(|| not_found(table, name).into())
    }

    /// The same for a record that may be absent.
    fn find_record<T: DeserializeOwned>(&self, table: &'static str, name: &str) -> Result<Option<T>, No> {
        let mut stmt = self.db.conn.prepare_cached(&format!("SELECT rec FROM {table} WHERE name = ?1"))?;
        let rec: Option<Vec<u8>> = stmt.query_row([name], |row| row.get(0)).optional()?;
        let opened = rec.map(|rec| open_json(&rec, seed(name))).transpose();
        opened.map_err(|damage| damaged(&Fault::damaged(table, name, damage)))
    }

    fn put_record<T: Serialize>(&mut self, table: &'static str, name: &str, record: &T) -> Result<Reply, No> {
        let rec = seal_json(record, seed(name)).map_err(|e| Fault::Broken(e.to_string()))?;
        self.db
            .conn
            .prepare_cached(&format!("INSERT OR REPLACE INTO {table} VALUES(?1, ?2)"))?
            .execute(params![name, rec])?;
        Ok(Reply::Done)
    }

    pub(super) fn delete_record(&mut self, table: &'static str, name: &str) -> Result<Reply, No> {
        let gone = self
            .db
            .conn
            .prepare_cached(&format!("DELETE FROM {table} WHERE name = ?1"))?
            .execute(params![name])?;
        if gone == 0 {
            return Err(not_found(table, name).into());
        }
        Ok(Reply::Done)
    }

    /// All records of a small table, by name.
    pub(crate) fn records<T: DeserializeOwned>(&self, table: &'static str) -> Result<Vec<T>, Fault> {
        let mut stmt =
            self.db.conn.prepare_cached(&format!("SELECT name, rec FROM {table} ORDER BY name"))?;
        let mut rows = stmt.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let rec = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            all.push(open_json(rec, seed(&name)).map_err(|damage| Fault::damaged(table, &name, damage))?);
        }
        Ok(all)
    }

    pub(crate) fn queue_record(&self, name: &QueueName) -> Option<QueueRecord> {
        self.queues.number(name).and_then(|no| self.queues.get(no)).map(record_of)
    }

    pub(crate) fn queue_records(&self) -> Vec<QueueRecord> {
        self.queues.current().into_iter().map(record_of).collect()
    }
}

fn record_of(queue: &Queue) -> QueueRecord {
    QueueRecord {
        name: queue.name.clone(),
        config: queue.rules.config.clone(),
        gate: queue.counts.gate.clone(),
        secrets: queue.secrets.clone(),
        created_at: queue.created_at,
    }
}

/// What people call the records of a table.
fn not_found(table: &'static str, name: &str) -> Refusal {
    let kind = if table == "api_key" { "API key" } else { table };
    Refusal::RecordNotFound { kind, name: name.to_owned() }
}

/// The seed of the checksum of a record that has a name instead of an id.
pub(crate) fn seed(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}
