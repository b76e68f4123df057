//! A reliable queue on Redis lists, as many teams have built it: `BLMOVE` to a list of the worker's own, `LREM` when done.
//!
//! | the verdict | the lists |
//! |---|---|
//! | applied, replayed | removed from the worker's list |
//! | in progress | moved to a sorted set, by the time at which it comes again: no attempt is burned |
//! | failed, may be tried again | the same, with the attempt counted |
//! | failed for good | moved to the list of the dead |
//!
//! A worker that died leaves its job on its list. It puts it back when it starts again under the same name. Then the job is
//! delivered twice, and the list cannot know whether its effect has happened.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Direction, Pipeline, RedisResult, Script};
use semel_ledger::handler::{Disposition, Job};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{MAX_ATTEMPTS, backoff};

/// A job on the list. The key is made by whoever pushes it, before it is tried for the first time.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    key: Option<String>,
    attempts: u32,
    payload: Box<RawValue>,
}

/// A queue of one worker, and the lists it shares with others.
#[derive(Clone)]
pub struct Queue {
    connection: MultiplexedConnection,
    name: String,
    worker: String,
}

impl Queue {
    /// The queue as this worker sees it. The connection waits for jobs, so it must have no time-out for answers.
    pub fn of(connection: MultiplexedConnection, name: &str, worker: &str) -> Self {
        Self { connection, name: name.to_owned(), worker: worker.to_owned() }
    }

    /// Appends a job.
    pub async fn push(&mut self, key: Option<&str>, payload: &RawValue) -> RedisResult<()> {
        let envelope = Envelope { key: key.map(str::to_owned), attempts: 0, payload: payload.to_owned() };
        self.connection.rpush(&self.name, text(&envelope)).await
    }

    /// Puts back what an earlier life of this worker left behind; says how many there were.
    pub async fn recover(&mut self) -> RedisResult<usize> {
        let (own, mut count) = (self.own(), 0);
        loop {
            let back = self.connection.lmove(&own, &self.name, Direction::Right, Direction::Left).await?;
            let Some::<String>(_) = back else { return Ok(count) };
            count += 1;
        }
    }

    /// Works on jobs until Redis is gone.
    pub async fn work(&mut self, handler: impl AsyncFn(&Job<'_>) -> Disposition) -> RedisResult<()> {
        self.recover().await?;
        loop {
            self.work_one(Duration::from_secs(1), &handler).await?;
        }
    }

    /// Works on the next job, and says what became of it; `None` if there was none for so long.
    pub async fn work_one(
        &mut self,
        patience: Duration,
        handler: &impl AsyncFn(&Job<'_>) -> Disposition,
    ) -> RedisResult<Option<Disposition>> {
        self.bring_due().await?;
        let (own, limit) = (self.own(), patience.as_secs_f64());
        let taken = self.connection.blmove(&self.name, own, Direction::Left, Direction::Right, limit).await?;
        let Some::<String>(taken) = taken else { return Ok(None) };
        let disposition = match serde_json::from_str::<Envelope>(&taken) {
            Ok(envelope) => self.handle(&taken, envelope, handler).await?,
            Err(error) => {
                self.moved(&taken, |end| end.rpush(self.dead(), &taken)).await?;
                Disposition::Fail { error: error.to_string(), retryable: false }
            }
        };
        Ok(Some(disposition))
    }

    async fn handle(
        &mut self,
        taken: &str,
        envelope: Envelope,
        handler: &impl AsyncFn(&Job<'_>) -> Disposition,
    ) -> RedisResult<Disposition> {
        // The list has no token that grows with every delivery.
        let job =
            Job { key: envelope.key.as_deref(), token: None, payload: envelope.payload.get().as_bytes() };
        let disposition = handler(&job).await;
        let attempts = envelope.attempts;
        match &disposition {
            Disposition::Ack { .. } => self.moved(taken, |end| end).await?,
            Disposition::Defer { until } => self.later(taken, envelope, until.remaining).await?,
            Disposition::Fail { retryable: true, .. } if attempts + 1 < MAX_ATTEMPTS => {
                let next = Envelope { attempts: attempts + 1, ..envelope };
                self.later(taken, next, backoff(attempts)).await?;
            }
            Disposition::Fail { .. } => self.moved(taken, |end| end.rpush(self.dead(), taken)).await?,
        }
        Ok(disposition)
    }

    async fn later(&mut self, taken: &str, next: Envelope, delay: Duration) -> RedisResult<()> {
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(&mut self.connection).await?;
        let delay = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX / 2);
        let due = seconds * 1_000 + micros / 1_000 + delay;
        self.moved(taken, |end| end.zadd(self.waiting(), text(&next), due)).await
    }

    /// Takes a job off the worker's list and puts it where `there` says, both or neither.
    async fn moved(
        &self,
        taken: &str,
        there: impl for<'p> FnOnce(&'p mut Pipeline) -> &'p mut Pipeline,
    ) -> RedisResult<()> {
        let mut end = redis::pipe();
        there(end.atomic()).lrem(self.own(), 1, taken);
        end.query_async(&mut self.connection.clone()).await
    }

    /// Puts jobs back whose time has come.
    async fn bring_due(&mut self) -> RedisResult<()> {
        let bring = Script::new(
            "local time = redis.call('TIME')
             local now = time[1] * 1000 + math.floor(time[2] / 1000)
             for _, job in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)) do
               redis.call('ZREM', KEYS[1], job)
               redis.call('RPUSH', KEYS[2], job)
             end",
        );
        bring.key(self.waiting()).key(&self.name).invoke_async(&mut self.connection).await
    }

    fn own(&self) -> String {
        format!("{}:of:{}", self.name, self.worker)
    }

    fn waiting(&self) -> String {
        format!("{}:waiting", self.name)
    }

    /// The list of jobs that are given up.
    pub fn dead(&self) -> String {
        format!("{}:dead", self.name)
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.name)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

fn text(envelope: &Envelope) -> String {
    serde_json::to_string(envelope).expect("an envelope serialises")
}
