//! A store whose changes are told.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::{Effect, Outcome};
use semel_core::publish::Published;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::refusal::Refusal;
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;
use semel_store::{Answer, Command, Health, JobQuery, KeyRecord, Page, Reply, Stats, Store, StoreError};

use super::{Event, Kind, News};
use crate::advice::{Asked, Sighting};

/// A store that tells its news. It keeps the law of the store it wraps, because it only passes calls on.
pub struct Heralded {
    store: Arc<dyn Store>,
    news: Arc<News>,
}

/// What has to be known of a command to tell what it brought about.
enum Entry {
    Publish(Asked),
    Settle { id: JobId, kind: Kind, replayed: bool, by_worker: bool },
    Queue(QueueName),
    QueueGone(QueueName),
    Job { id: JobId, kind: Kind },
    KeyReleased(QueueName),
    ApiKeys,
    Tasks,
    Other,
}

/// Queues in which something may be ready, and for how many workers. Told when a commit is through, and at once for those that
/// come after each other: they often are all of one queue.
#[derive(Default)]
struct Ready<'a>(Vec<(&'a QueueName, u32)>);

impl<'a> Ready<'a> {
    fn add(&mut self, queue: &'a QueueName) {
        match self.0.last_mut() {
            Some((last, jobs)) if *last == queue => *jobs += 1,
            _ => self.0.push((queue, 1)),
        }
    }
}

impl Entry {
    fn of(command: &Command) -> Self {
        match command {
            Command::Publish(publish) => Self::Publish(Asked::of(publish)),
            Command::Settle(settle) => Self::Settle {
                id: settle.id(),
                kind: kind_of(settle.outcome()),
                replayed: is_replayed(settle.outcome()),
                by_worker: settle.report().from_worker,
            },
            Command::PutQueue { name: queue, .. }
            | Command::Pause { queue, .. }
            | Command::PutSecrets { queue, .. } => Self::Queue(queue.clone()),
            Command::DeleteQueue(queue) => Self::QueueGone(queue.clone()),
            Command::Cancel(id) => Self::Job { id: *id, kind: Kind::Cancelled },
            Command::Bury { id, .. } => Self::Job { id: *id, kind: Kind::Dead },
            Command::Purge(id) => Self::Job { id: *id, kind: Kind::Purged },
            Command::Replay(id) => Self::Job { id: *id, kind: Kind::Replayed },
            Command::ReleaseKey { queue, .. } => Self::KeyReleased(queue.clone()),
            Command::PutApiKey(_) | Command::DeleteApiKey(_) => Self::ApiKeys,
            Command::PutSchedule(_)
            | Command::DeleteSchedule(_)
            | Command::PutReplay(_)
            | Command::DeleteReplay(_) => Self::Tasks,
            _ => Self::Other,
        }
    }
}

fn kind_of(outcome: &Outcome) -> Kind {
    match outcome {
        Outcome::Done { .. } => Kind::Completed,
        Outcome::Received => Kind::Received,
        Outcome::Failed { .. } | Outcome::Rejected { .. } => Kind::Retrying,
        Outcome::Backpressure { .. } => Kind::Deferred,
        Outcome::Expired => Kind::Expired,
    }
}

fn is_replayed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done { effect: Some(receipt), .. } if receipt.outcome == Effect::Replayed)
}

/// The end of a delivery frees a slot, a group, or a held queue; or it puts the job back.
/// A dispatcher that completes a job knows so itself, and whether that lets another go: ringing it would have it look twice for
/// every job.
fn makes_ready(state: State, by_worker: bool) -> bool {
    let is_known = state == State::Completed && !by_worker;
    state != State::AwaitingAck && !is_known
}

/// What advice is made of.
fn sighting<'a>(entry: &'a Entry, answer: &'a Answer) -> Option<Sighting<'a>> {
    match (entry, answer) {
        (Entry::Publish(asked), Ok(Reply::Published(published))) => {
            Some(Sighting::Published(asked, published))
        }
        (Entry::Publish(asked), Err(Refusal::KeyCollision { .. })) => Some(Sighting::Collided(asked)),
        (Entry::Settle { kind, .. }, Ok(Reply::Settled { queue, state, repeated: false, .. })) => {
            Some(Sighting::Settled { queue, kind: *kind, state: *state })
        }
        (Entry::Other, Ok(Reply::Rescued { jobs, .. })) => Some(Sighting::Rescued(jobs)),
        _ => None,
    }
}

impl Heralded {
    /// Tells the news of `store`.
    pub fn new(store: Arc<dyn Store>, news: Arc<News>) -> Self {
        Self { store, news }
    }

    fn tell(&self, kind: Kind, queue: Option<&QueueName>, job: Option<JobId>) {
        self.news.tell(|| Event { kind, at: self.store.now(), queue: queue.cloned(), job, detail: None });
    }

    fn announce<'a>(&self, entry: &'a Entry, answer: &'a Answer, ready: &mut Ready<'a>) {
        let Ok(reply) = answer else { return };
        match (entry, reply) {
            (Entry::Publish(asked), Reply::Published(published)) => {
                // A duplicate rings too: it may have revived a dead letter.
                if !published.deduplicated || published.state == State::Pending {
                    ready.add(&asked.queue);
                }
                self.published(&asked.queue, published);
            }
            (
                Entry::Settle { id, kind, replayed, by_worker },
                Reply::Settled { queue, state, took, repeated: false, .. },
            ) => {
                if let Some(took) = took {
                    self.news.times.note(queue, *took);
                }
                if *replayed {
                    self.news.suspect(queue, *id);
                }
                if makes_ready(*state, *by_worker) {
                    ready.add(queue);
                }
                self.settled(queue, *id, *state, *kind);
            }
            (Entry::Other, Reply::Rescued { jobs, .. }) => {
                for job in jobs {
                    self.tell(Kind::Expired, Some(&job.queue), Some(job.id));
                    if makes_ready(job.state, true) {
                        ready.add(&job.queue);
                    }
                    self.settled(&job.queue, job.id, job.state, Kind::Retrying);
                }
            }
            (Entry::Queue(queue), _) => {
                self.news.queue_changed(queue);
                self.news.outbox.changed(queue);
                self.tell(Kind::QueueChanged, Some(queue), None);
            }
            (Entry::QueueGone(queue), _) => {
                self.news.queue_gone(queue);
                self.news.outbox.gone(queue);
                self.tell(Kind::QueueChanged, Some(queue), None);
            }
            // This node's keyring is read anew by whoever changed a key, before the change is answered.
            (Entry::ApiKeys, _) => self.news.outbox.api_keys(),
            (Entry::Tasks, _) => {
                self.news.tasks_changed();
                self.news.outbox.tasks();
            }
            (Entry::KeyReleased(queue), Reply::KeyReleased(id)) => {
                self.tell(Kind::KeyReleased, Some(queue), Some(*id));
            }
            _ => {}
        }
    }

    fn published(&self, queue: &QueueName, published: &Published) {
        let kind = match (published.deduplicated, published.payload_matches) {
            (false, _) => Kind::Published,
            (true, true) => Kind::Deduplicated,
            (true, false) => Kind::Collision,
        };
        if published.deduplicated {
            self.news.suspect(queue, published.id);
        }
        self.tell(kind, Some(queue), Some(published.id));
    }

    fn settled(&self, queue: &QueueName, id: JobId, state: State, kind: Kind) {
        if state.is_finished() {
            self.news.ends.ended(id);
        }
        let kind = if state == State::Dead { Kind::Dead } else { kind };
        self.tell(kind, Some(queue), Some(id));
    }

    /// Somebody cancelled, buried, purged or replayed a job. That is rare enough to look up where it belongs.
    async fn managed(&self, id: JobId, kind: Kind) {
        self.news.ends.ended(id);
        // What cannot be read now is found by those who look for themselves.
        let queue = self.store.job(id).await.ok().flatten().map(|job| job.spec.queue.clone());
        if let Some(queue) = &queue {
            self.news.ready(queue, 1);
        }
        self.tell(kind, queue.as_ref(), Some(id));
    }
}

#[async_trait]
impl Store for Heralded {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let entries: Vec<_> = batch.iter().map(Entry::of).collect();
        let began = Instant::now();
        let answers = self.store.apply(batch).await?;
        let seen = entries.iter().zip(&answers).filter_map(|(entry, answer)| sighting(entry, answer));
        self.news.watch.note(self.store.now(), began.elapsed(), seen);
        let mut ready = Ready::default();
        for (entry, answer) in entries.iter().zip(&answers) {
            match (entry, answer) {
                (Entry::Job { id, kind }, Ok(_)) => self.managed(*id, *kind).await,
                _ => self.announce(entry, answer, &mut ready),
            }
        }
        ready.0.into_iter().for_each(|(queue, jobs)| self.news.ready(queue, jobs));
        Ok(answers)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        let deliveries = self.store.lease(request).await?;
        for delivery in &deliveries {
            self.tell(Kind::Leased, Some(&delivery.spec.queue), Some(delivery.id));
        }
        Ok(deliveries)
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        self.store.next_due(queue).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.store.next_expiry().await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.store.job(id).await
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        self.store.jobs(query).await
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        self.store.key(queue, key).await
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.store.queue(name).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        self.store.queues().await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.store.schedules().await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.store.api_keys().await
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        self.store.replays().await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.store.stats().await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.store.health().await
    }

    fn now(&self) -> Timestamp {
        self.store.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}
