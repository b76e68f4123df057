//! A store whose publishes and completes go through the SQL functions, as those of an application do, while everything else
//! goes to the PostgreSQL store. So the law and the model can be asked whether both follow the same rules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::{Job, Overrides};
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::{Group, QueueName};
use semel_core::outcome::{Outcome, Receipt};
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Published};
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Answer, Command, Health, JobQuery, KeyRecord, Page, Reply, Stats, Store, StoreError};
use serde_json::{Map, Value, json};
use tokio_postgres::{Client, Row, Statement};

use crate::harness::connect;
use crate::sql_refusal::refusal;

const SET_TIME: &str = "SELECT set_config('semel.now', $1::bigint::text, false)";

const PUBLISH: &str = "
    SELECT p.id, p.job, p.state, semel.to_millis(p.created_at), p.deduplicated, p.payload_matches, p.duplicates,
           semel.to_millis(p.key_expires_at)
      FROM semel.publish(
               $1, $2::text, $3, $4::bigint * interval '1 millisecond',
               CASE WHEN $5::bigint = 9223372036854775807 THEN 'infinity'
                    ELSE timestamptz 'epoch' + $5::bigint * interval '1 millisecond' END,
               $6, $7, $8::text::json, $9::text::json, $10
           ) AS p";

const COMPLETE: &str = "
    SELECT c.queue, c.repeated, (extract(epoch FROM c.took) * 1000)::bigint
      FROM semel.complete($1::text, $2, $3::text, $4::text::json) AS c";

/// A store, with the SQL functions in front of it.
pub(crate) struct SqlStore {
    url: String,
    inner: Arc<dyn Store>,
    idle: Mutex<Vec<Session>>,
    closed: AtomicBool,
}

/// An application's connection.
struct Session {
    client: Client,
    /// The time that it was told last.
    now: Timestamp,
    set_time: Statement,
    publish: Statement,
    complete: Statement,
}

impl Session {
    async fn open(url: &str) -> Self {
        let client = connect(url).await;
        let set_time = client.prepare(SET_TIME).await.unwrap();
        let publish = client.prepare(PUBLISH).await.unwrap();
        let complete = client.prepare(COMPLETE).await.unwrap();
        Self { client, now: Timestamp::default(), set_time, publish, complete }
    }

    async fn tell(&mut self, now: Timestamp) {
        if self.now != now {
            self.now = now;
            let millis = i64::try_from(now.millis()).unwrap();
            self.client.execute(&self.set_time, &[&millis]).await.unwrap();
        }
    }

    async fn publish(&self, draft: &Draft) -> Answer {
        let millis = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let delay = draft.delay.map(|delay| millis(delay.millis()));
        let run_at = draft.run_at.map(|at| millis(at.millis()));
        let priority = i32::try_from(draft.priority).unwrap();
        let (key, group) = (draft.key.as_ref().map(Key::as_str), draft.group.as_ref().map(Group::as_str));
        let (metadata, options) = (metadata(&draft.metadata), options(&draft.overrides));
        let row = self
            .client
            .query_one(
                &self.publish,
                &[
                    &draft.queue.as_str(),
                    &text(&draft.payload),
                    &key,
                    &delay,
                    &run_at,
                    &priority,
                    &group,
                    &metadata,
                    &options,
                    &draft.publisher,
                ],
            )
            .await;
        row.map(|row| Reply::Published(published(&row))).map_err(|error| refusal(&error))
    }

    async fn complete(&self, settle: &Settle, result: Option<&Payload>, effect: Option<&Receipt>) -> Answer {
        let lease = settle.token().unwrap().to_string();
        let effect = effect.map(|receipt| serde_json::to_string(receipt).unwrap());
        let row = self
            .client
            .query_one(&self.complete, &[&settle.id().to_string(), &lease, &result.map(text), &effect])
            .await
            .map_err(|error| refusal(&error))?;
        let took: Option<i64> = row.get(2);
        Ok(Reply::Settled {
            queue: QueueName::try_from(row.get::<_, &str>(0)).unwrap(),
            state: State::Completed,
            due: None,
            took: took.map(|took| Millis::from_millis(u64::try_from(took).unwrap())),
            repeated: row.get(1),
        })
    }
}

fn text(payload: &Payload) -> &str {
    std::str::from_utf8(payload.bytes()).unwrap()
}

/// Metadata in its order, which a map would not keep.
fn metadata(entries: &[(String, String)]) -> Option<String> {
    let entry = |(name, value): &(String, String)| format!("{}:{}", json!(name), json!(value));
    let all: Vec<_> = entries.iter().map(entry).collect();
    (!all.is_empty()).then(|| format!("{{{}}}", all.join(",")))
}

/// Options as the HTTP API has them: spans in seconds.
fn options(overrides: &Overrides) -> Option<String> {
    let seconds = |span: Millis| json!(span.millis() as f64 / 1000.0);
    let mut all = Map::new();
    let mut add = |name: &str, value: Option<Value>| drop(value.map(|value| all.insert(name.into(), value)));
    add("maxAttempts", overrides.max_attempts.map(Value::from));
    add("timeout", overrides.timeout.map(seconds));
    add("window", overrides.window.map(seconds));
    add(
        "retry",
        overrides.retry.as_ref().map(|retry| {
            json!({
                "strategy": retry.strategy, "base": seconds(retry.base), "factor": retry.factor,
                "cap": seconds(retry.cap), "jitter": retry.jitter,
            })
        }),
    );
    (!all.is_empty()).then(|| Value::from(all).to_string())
}

fn published(row: &Row) -> Published {
    let time = |millis: i64| Timestamp::from_millis(u64::try_from(millis).unwrap());
    let id: JobId = row.get::<_, &str>(0).parse().unwrap();
    assert_eq!(i64::try_from(id.raw()).unwrap(), row.get::<_, i64>(1), "both are the same job");
    let state = State::ALL.into_iter().find(|state| state.name() == row.get::<_, &str>(2));
    Published {
        id,
        state: state.unwrap(),
        created_at: time(row.get(3)),
        deduplicated: row.get(4),
        payload_matches: row.get(5),
        duplicates: u32::try_from(row.get::<_, i32>(6)).unwrap(),
        key_expires_at: row.get::<_, Option<i64>>(7).map(time),
    }
}

impl SqlStore {
    /// The store `inner`, in the database at `url`.
    pub(crate) fn new(url: &str, inner: Arc<dyn Store>) -> Self {
        Self { url: url.to_owned(), inner, idle: Mutex::default(), closed: AtomicBool::new(false) }
    }

    /// A connection that knows what time it is.
    async fn session(&self) -> Session {
        let idle = self.idle.lock().unwrap().pop();
        let mut session = match idle {
            Some(session) => session,
            None => Session::open(&self.url).await,
        };
        session.tell(self.inner.now()).await;
        session
    }

    /// What the SQL functions answer; nothing if it is not for them.
    async fn ask(&self, command: &Command) -> Option<Answer> {
        let answer = match command {
            Command::Publish(publish) => {
                let session = self.session().await;
                let answer = session.publish(publish.draft()).await;
                self.idle.lock().unwrap().push(session);
                answer
            }
            Command::Settle(settle) if settle.token().is_some() && is_plain(settle.report()) => {
                let Outcome::Done { result, effect } = settle.outcome() else { return None };
                let session = self.session().await;
                let answer = session.complete(settle, result.as_ref(), effect.as_ref()).await;
                self.idle.lock().unwrap().push(session);
                answer
            }
            _ => return None,
        };
        Some(answer)
    }
}

/// Whether a report says no more than an application can.
fn is_plain(report: &Report) -> bool {
    report.status_code.is_none() && report.duration.is_none() && report.effect.is_none()
}

#[async_trait]
impl Store for SqlStore {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        if self.closed.load(Ordering::Acquire) || batch.len() > semel_store::store::BATCH_MAX {
            return self.inner.apply(batch).await;
        }
        let mut answers = Vec::with_capacity(batch.len());
        for command in batch {
            match self.ask(&command).await {
                Some(answer) => answers.push(answer),
                None => answers.extend(self.inner.apply(vec![command]).await?),
            }
        }
        Ok(answers)
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.closed.store(true, Ordering::Release);
        self.inner.close().await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        self.inner.lease(request).await
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        self.inner.next_due(queue).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.inner.next_expiry().await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.inner.job(id).await
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        self.inner.jobs(query).await
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        self.inner.key(queue, key).await
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.inner.queue(name).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        self.inner.queues().await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.inner.schedules().await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.inner.api_keys().await
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        self.inner.replays().await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.inner.stats().await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.inner.health().await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}
