//! Stores with one flaw each: everything else is that of a good store underneath.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use semel_core::ids::{JobId, Token};
use semel_core::job::{Job, JobSpec};
use semel_core::key::Key;
use semel_core::lease::{Delivery, Extend, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::publish::{Publish, Published};
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::settle::Settle;
use semel_core::time::{Millis, Timestamp};
use semel_store::{Answer, Command, Health, JobQuery, KeyRecord, Page, Reply, Stats, Store, StoreError};

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Now and then a publish is answered and never stored.
    ForgetsPublishes,
    /// Now and then an ack is answered and never stored.
    ForgetsAcks,
    /// Cancels a job that nobody called off.
    CancelsByItself,
    /// Delivers jobs that were never published.
    Invents,
    /// Delivers the payload of one job under the id of another.
    MixesPayloads,
    /// A key does not keep a second job from being made.
    NoDedup,
    /// Now and then a key does not lead to its job.
    LosesKeys,
    /// Any token settles.
    NoFencing,
    /// Every delivery has the same token.
    ReusesTokens,
    /// Delayed jobs go out at once.
    Early,
    /// Backpressure counts as a failed attempt.
    BurnsOnDefer,
    /// Jobs get more attempts than promised.
    Uncapped,
    /// Leases end before they should.
    EndsLeasesEarly,
    /// The counters are off.
    Miscounts,
}

/// A store with a flaw.
pub(crate) struct Broken {
    inner: Arc<dyn Store>,
    flaw: Flaw,
    calls: AtomicU64,
}

impl Broken {
    /// A good store, with a flaw put over it.
    pub(crate) fn over(inner: Arc<dyn Store>, flaw: Flaw) -> Arc<dyn Store> {
        Arc::new(Self { inner, flaw, calls: AtomicU64::new(0) })
    }

    /// True every `nth` time it is asked.
    fn now_and_then(&self, nth: u64) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % nth == nth - 1
    }

    /// What is done instead of a command, and which of the answers is given for it.
    fn instead(&self, command: Command) -> Instead {
        match (self.flaw, command) {
            (Flaw::ForgetsPublishes, Command::Publish(_)) if self.now_and_then(50) => {
                Instead::DoAndLie(vec![], self.invented())
            }
            (Flaw::ForgetsAcks, Command::Settle(settle)) if is_done(&settle) && self.now_and_then(50) => {
                let extend = Extend::new(settle.id(), settle.token(), Millis::from_secs(1)).unwrap();
                Instead::DoAndLie(vec![Command::Extend(extend)], completed())
            }
            (flaw, command) => Instead::Do(Self::twisted(flaw, command)),
        }
    }

    /// What is done instead of a command by a store that answers with what it did.
    fn twisted(flaw: Flaw, command: Command) -> Vec<Command> {
        match (flaw, command) {
            (Flaw::NoDedup, Command::Publish(publish)) => {
                let queue = publish.draft().queue.clone();
                let key = publish.draft().key.clone();
                let release = key.map(|key| Command::ReleaseKey { queue, key, reason: "broken".into() });
                release.into_iter().chain([Command::Publish(publish)]).collect()
            }
            (Flaw::NoFencing | Flaw::ReusesTokens, Command::Settle(settle)) => vec![without_token(&settle)],
            (Flaw::Early, Command::Publish(publish)) => vec![changed(&publish, |draft| draft.delay = None)],
            (Flaw::Uncapped, Command::Publish(publish)) => {
                vec![changed(&publish, |draft| draft.overrides.max_attempts = Some(9))]
            }
            (Flaw::BurnsOnDefer, Command::Settle(settle)) => vec![burned(&settle)],
            (_, command) => vec![command],
        }
    }

    fn invented(&self) -> Reply {
        Reply::Published(Published {
            id: JobId::from_raw(1 << 40 | self.calls.load(Ordering::Relaxed)).unwrap(),
            state: State::Pending,
            created_at: self.inner.now(),
            deduplicated: false,
            payload_matches: true,
            duplicates: 0,
            key_expires_at: None,
        })
    }
}

/// The answer to an ack, made up. Histories do not tell the queue, so any will do.
fn completed() -> Reply {
    let queue = QueueName::try_from("any").unwrap();
    Reply::Settled { queue, state: State::Completed, due: None, took: None, repeated: false }
}

/// What becomes of one command.
enum Instead {
    Do(Vec<Command>),
    DoAndLie(Vec<Command>, Reply),
}

fn is_done(settle: &Settle) -> bool {
    matches!(settle.outcome(), Outcome::Done { .. })
}

fn without_token(settle: &Settle) -> Command {
    Command::Settle(
        Settle::new(settle.id(), None, settle.outcome().clone(), settle.report().clone()).unwrap(),
    )
}

fn burned(settle: &Settle) -> Command {
    let outcome = match settle.outcome() {
        Outcome::Backpressure { .. } => Outcome::Failed { error: "too busy".into() },
        other => other.clone(),
    };
    Command::Settle(Settle::new(settle.id(), settle.token(), outcome, settle.report().clone()).unwrap())
}

fn changed(publish: &Publish, change: impl FnOnce(&mut semel_core::publish::Draft)) -> Command {
    let mut draft = publish.draft().clone();
    change(&mut draft);
    Command::Publish(draft.check().unwrap())
}

#[async_trait]
impl Store for Broken {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let (mut commands, mut plans) = (Vec::new(), Vec::new());
        for command in batch {
            let (done, lie) = match self.instead(command) {
                Instead::Do(done) => (done, None),
                Instead::DoAndLie(done, lie) => (done, Some(lie)),
            };
            plans.push((done.len(), lie));
            commands.extend(done);
        }
        let mut answers = self.inner.apply(commands).await?.into_iter();
        let told = plans.into_iter().map(|(n, lie)| {
            let truth = answers.by_ref().take(n).last();
            lie.map(Ok).or(truth).unwrap()
        });
        Ok(told.collect())
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        let asked = request.duration();
        let short = Some(Millis::from_secs(1));
        let request = match self.flaw {
            Flaw::EndsLeasesEarly => {
                LeaseRequest::new(request.queue().clone(), request.max(), short).unwrap()
            }
            _ => request,
        };
        let mut deliveries = self.inner.lease(request).await?;
        match self.flaw {
            Flaw::Invents => {
                let made_up = |id: JobId| JobId::from_raw(id.raw() ^ (1 << 50)).unwrap();
                let known = deliveries.first().cloned();
                deliveries.extend(known.map(|known| Delivery { id: made_up(known.id), ..known }));
            }
            Flaw::MixesPayloads if deliveries.len() > 1 => {
                let payload = deliveries[0].spec.payload.clone();
                deliveries[1].spec = Arc::new(JobSpec { payload, ..JobSpec::clone(&deliveries[1].spec) });
            }
            Flaw::ReusesTokens => deliveries.iter_mut().for_each(|d| d.token = Token::from_raw(7)),
            Flaw::EndsLeasesEarly => {
                let until = self.inner.now().plus(asked.unwrap_or_default());
                deliveries.iter_mut().for_each(|d| d.deadline = until);
            }
            Flaw::CancelsByItself if self.now_and_then(10) => {
                if let Some(delivery) = deliveries.pop() {
                    self.inner.apply(vec![Command::Cancel(delivery.id)]).await?;
                }
            }
            _ => {}
        }
        Ok(deliveries)
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
        if self.flaw == Flaw::LosesKeys && self.now_and_then(100) {
            return Ok(None);
        }
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
        let mut stats = self.inner.stats().await?;
        if self.flaw == Flaw::Miscounts {
            stats.queues.iter_mut().for_each(|queue| queue.completed += 1);
        }
        Ok(stats)
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.inner.health().await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}
