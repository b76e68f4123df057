//! A store with everything in it that a store can have.

use std::path::Path;
use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::{Group, QueueName};
use semel_core::outcome::{DeferScope, Effect, Outcome, Receipt};
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::{OnDead, QueueConfig};
use semel_core::records::{ApiKeyRecord, ScheduleRecord, Scope, WebhookSecret};
use semel_core::replay::{ReplayCounts, ReplayFilter, ReplayRecord, ReplayState};
use semel_core::retention::Retention;
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Clock, Command, ManualClock, Reply, Store};
use semel_store_embedded::export::Export;
use semel_store_embedded::{EmbeddedStore, Options};
use semel_store_postgres::import::{self, Report as Moved};

/// When every store here begins.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) fn at(span: Millis) -> Timestamp {
    START.plus(span)
}

fn minutes(count: u64) -> Millis {
    Millis::from_secs(60 * count)
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::try_from(name).unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::try_from(text).unwrap()
}

/// An embedded store whose small pieces make a few dozen jobs fill several of each.
pub(crate) fn embedded(dir: &Path, clock: &Arc<ManualClock>) -> EmbeddedStore {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let small =
        Options { reserve_bytes: 0, run_keys: 16, segment_jobs: 20, chunk_ids: 4, ..Options::default() };
    EmbeddedStore::open(dir, Options { clock, ..small }).expect("the embedded store opens")
}

/// Moves a directory, which must go well.
pub(crate) async fn moved(dir: &Path, url: &str) -> Moved {
    let source = Box::new(Export::open(dir).expect("the directory is free"));
    let report = import::import(url, source, &mut |_| {}).await.expect("the store moves");
    let report = report.expect("it had not been moved before");
    assert!(report.differences.is_empty(), "{:#?}", report.differences);
    assert_eq!(report.source, report.target);
    report
}

/// Somebody who does things to a store.
pub(crate) struct Actor<'a> {
    pub(crate) store: &'a dyn Store,
}

impl Actor<'_> {
    /// Has a command carried out.
    pub(crate) async fn does(&self, command: Command) -> Reply {
        let answer = self.store.apply(vec![command]).await.expect("the store takes it").remove(0);
        answer.expect("it is not refused")
    }

    pub(crate) async fn puts_queue(&self, name: &str, config: QueueConfig) {
        self.does(Command::PutQueue { name: queue(name), config: Box::new(config) }).await;
    }

    /// Publishes, and says which job was the answer.
    pub(crate) async fn publishes(&self, draft: Draft) -> JobId {
        match self.does(Command::Publish(draft.check().unwrap())).await {
            Reply::Published(published) => published.id,
            other => panic!("a publish was answered {other:?}"),
        }
    }

    pub(crate) async fn leases(&self, name: &str, most: u32) -> Vec<Delivery> {
        self.store.lease(LeaseRequest::new(queue(name), most, None).unwrap()).await.expect("the store leases")
    }

    pub(crate) async fn settles(&self, delivery: &Delivery, outcome: Outcome) {
        let settle = Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap();
        self.does(Command::Settle(settle)).await;
    }

    /// Publishes a job that goes out and ends in this way.
    async fn sees_through(&self, draft: Draft, outcome: Outcome) -> JobId {
        let name = draft.queue.to_string();
        let id = self.publishes(draft).await;
        let delivery = self.leases(&name, 1).await.remove(0);
        assert_eq!(delivery.id, id, "nothing else waits in {name}");
        self.settles(&delivery, outcome).await;
        id
    }
}

pub(crate) fn draft(name: &str, text: &str) -> Draft {
    Draft::new(queue(name), Payload::from_json(format!("{{\"text\": \"{text}\"}}")).unwrap())
}

pub(crate) fn keyed(name: &str, text: &str) -> Draft {
    draft(name, text).with_key(key(text))
}

pub(crate) fn grouped(name: &str, text: &str, group: &str) -> Draft {
    Draft { group: Some(Group::try_from(group).unwrap()), ..keyed(name, text) }
}

pub(crate) fn done() -> Outcome {
    Outcome::Done { result: None, effect: None }
}

pub(crate) fn rejected() -> Outcome {
    Outcome::Rejected { error: "never \0 again".into() }
}

/// What a test wants to find again.
pub(crate) struct World {
    /// A delivery that was out when the store stopped.
    pub(crate) leased: Delivery,
    /// A delivery that was settled.
    pub(crate) settled: Delivery,
    /// A dead letter under the key "dead".
    pub(crate) dead: JobId,
    /// Those who stand in the line of group "a" of the queue "lines", in order; the first is open.
    pub(crate) line: Vec<JobId>,
    /// All keys, with their queues.
    pub(crate) keys: Vec<(QueueName, Key)>,
}

/// Fills a store, in which two and a half hours pass.
pub(crate) async fn fill(store: &dyn Store, clock: &ManualClock) -> World {
    let actor = Actor { store };
    records(&actor).await;
    let old = old_jobs(&actor, clock).await;
    let (settled, dead) = finished(&actor, clock).await;
    let line = lines(&actor, clock).await;
    let leased = unfinished(&actor, clock).await;
    let names = ["orders", "brief", "short", "lines", "limits", "gone"];
    let keys = old.into_iter().chain(
        ["first", "completed", "dead", "cancelled", "released", "ack", "nack", "defer", "late", "leased"]
            .map(str::to_owned),
    );
    let keys = keys.flat_map(|text| names.map(|name| (queue(name), key(&text)))).collect();
    World { leased, settled, dead, line, keys }
}

/// Queues, with all that can be set, and what is not about jobs.
async fn records(actor: &Actor<'_>) {
    actor.puts_queue("orders", QueueConfig { on_dead: OnDead::Release, ..QueueConfig::default() }).await;
    // Jobs are stripped long before their keys end.
    let retention = Retention { completed: minutes(10), dead: minutes(10), archive: false };
    actor.puts_queue("brief", QueueConfig { retention, ..QueueConfig::default() }).await;
    // Keys end long before their jobs.
    actor.puts_queue("short", QueueConfig { window: minutes(5), ..QueueConfig::default() }).await;
    actor.puts_queue("lines", QueueConfig { group_concurrency: Some(1), ..QueueConfig::default() }).await;
    let limits = QueueConfig {
        rate: Some(semel_core::rate::RateLimit { count: 100, per: Millis::from_secs(1), burst: 100 }),
        concurrency: Some(7),
        breaker: Some(semel_core::breaker::BreakerConfig { failures: 3, cooldown: minutes(5) }),
        key_pattern: Some("[a-z]+.*".into()),
        ..QueueConfig::default()
    };
    actor.puts_queue("limits", limits).await;
    let secret =
        WebhookSecret { secret: "whsec_1".into(), created_at: START, expires_at: Some(at(minutes(900))) };
    actor.does(Command::PutSecrets { queue: queue("orders"), secrets: vec![secret] }).await;
    actor.does(Command::Pause { queue: queue("short"), paused: true }).await;
    actor.does(Command::PutSchedule(Box::new(schedule()))).await;
    actor.does(Command::PutApiKey(Box::new(api_key()))).await;
    actor.does(Command::PutReplay(Box::new(replay()))).await;
}

fn schedule() -> ScheduleRecord {
    ScheduleRecord {
        name: "nightly".into(),
        queue: queue("orders"),
        cron: "0 3 * * *".into(),
        zone: "Europe/Berlin".into(),
        payload: "{\"n\": 1.0}".into(),
        next_at: at(Millis::from_hours(3)),
    }
}

fn api_key() -> ApiKeyRecord {
    ApiKeyRecord {
        id: "key-1".into(),
        hash: "ab".repeat(32),
        label: "tests \0".into(),
        scopes: vec![Scope::Publish, Scope::Admin],
        queues: vec!["*".into()],
        created_at: START,
        expires_at: None,
        last_used_at: Some(at(minutes(1))),
    }
}

fn replay() -> ReplayRecord {
    ReplayRecord {
        id: "replay-1".into(),
        queue: queue("orders"),
        filter: ReplayFilter::default(),
        rate: Some(5),
        dry_run: false,
        state: ReplayState::Running,
        created_at: START,
        finished_at: None,
        cursor: None,
        counts: ReplayCounts::default(),
    }
}

/// Jobs of which only a part is left: stripped, of a deleted queue, under a key that came back, gone. Two hours pass.
async fn old_jobs(actor: &Actor<'_>, clock: &ManualClock) -> Vec<String> {
    let mut keys = Vec::new();
    for n in 0..12 {
        let text = format!("stripped-{n}");
        actor.sees_through(keyed("brief", &text), if n % 2 == 0 { done() } else { rejected() }).await;
        keys.push(text);
    }
    actor.sees_through(draft("brief", "gone without a trace"), done()).await;
    actor.does(Command::Pause { queue: queue("short"), paused: false }).await;
    for round in 0..3 {
        actor.sees_through(keyed("short", "again"), done()).await;
        actor.publishes(Draft { publisher: Some(format!("p{round}")), ..keyed("short", "again") }).await;
        clock.advance(minutes(6));
    }
    actor.does(Command::Pause { queue: queue("short"), paused: true }).await;
    keys.push("again".into());
    for round in 0..2 {
        actor.puts_queue("gone", QueueConfig { max_attempts: 2 + round, ..QueueConfig::default() }).await;
        actor.sees_through(keyed("gone", "orphan"), done()).await;
        if round == 0 {
            clock.advance(minutes(40));
            while let Reply::Pruned { more: true, .. } = actor.does(Command::Prune { limit: 5 }).await {}
            actor.does(Command::DeleteQueue(queue("gone"))).await;
        }
    }
    keys.push("orphan".into());
    clock.advance(minutes(60));
    keys
}

/// Jobs that have ended, in every way there is.
async fn finished(actor: &Actor<'_>, clock: &ManualClock) -> (Delivery, JobId) {
    let receipt = Receipt { outcome: Effect::Applied, key: Some("charge-1".into()) };
    let result = Some(Payload::from_json("{ \"ok\" : 1.50 }").unwrap());
    actor.publishes(keyed("orders", "completed")).await;
    let settled = actor.leases("orders", 1).await.remove(0);
    clock.advance(Millis::from_millis(250));
    actor.settles(&settled, Outcome::Done { result, effect: Some(receipt) }).await;
    let dead = actor.sees_through(keyed("orders", "dead"), rejected()).await;
    let cancelled = actor.publishes(keyed("orders", "cancelled")).await;
    actor.does(Command::Cancel(cancelled)).await;
    let buried = actor.publishes(keyed("orders", "buried")).await;
    actor.does(Command::Bury { id: buried, reason: "it came back too often".into() }).await;
    actor.sees_through(keyed("orders", "released"), done()).await;
    let (queue, key) = (queue("orders"), key("released"));
    actor.does(Command::ReleaseKey { queue, key, reason: "a mistake".into() }).await;
    // The second takes the key of the first, which is dead; and is itself dead and replayed.
    actor.sees_through(keyed("orders", "first"), rejected()).await;
    let second = actor.sees_through(keyed("orders", "first"), rejected()).await;
    actor.does(Command::Replay(second)).await;
    for n in 0..11 {
        let publisher = (n % 2 == 0).then(|| format!("publisher {n} \0"));
        actor.publishes(Draft { publisher, ..keyed("orders", "completed") }).await;
    }
    (settled, dead)
}

/// Jobs that stand in lines.
async fn lines(actor: &Actor<'_>, clock: &ManualClock) -> Vec<JobId> {
    let before = actor.sees_through(grouped("lines", "line-0", "a"), rejected()).await;
    let mut line = Vec::new();
    for n in 1..6 {
        line.push(actor.publishes(grouped("lines", &format!("line-{n}"), "a")).await);
        actor.publishes(grouped("lines", &format!("other-{n}"), "b")).await;
        clock.advance(Millis::from_millis(3));
    }
    // The dead letter joins the end of the line; others join after it.
    actor.does(Command::Replay(before)).await;
    line.push(before);
    clock.advance(Millis::from_millis(3));
    line.push(actor.publishes(grouped("lines", "line-7", "a")).await);
    // The first of the other group waits out a retry, and keeps its place.
    for delivery in actor.leases("lines", 5).await {
        if delivery.spec.group == Some(Group::try_from("b").unwrap()) {
            actor.settles(&delivery, Outcome::Failed { error: "not yet".into() }).await;
        }
    }
    line
}

/// Jobs that wait, in every way there is.
async fn unfinished(actor: &Actor<'_>, clock: &ManualClock) -> Delivery {
    for text in ["leased", "ack", "nack", "defer"] {
        actor.publishes(Draft { priority: 9, ..keyed("orders", text) }).await;
        clock.advance(Millis::from_millis(1));
    }
    let out = actor.leases("orders", 4).await;
    actor.settles(&out[1], Outcome::Received).await;
    actor.settles(&out[2], Outcome::Failed { error: "é 🦀 \0".into() }).await;
    let wait = Some(Millis::from_secs(30));
    let backpressure =
        |scope| Outcome::Backpressure { retry_after: wait, scope: Some(scope), reason: Some("busy".into()) };
    actor.settles(&out[3], backpressure(DeferScope::Job)).await;
    for n in 0..20 {
        let metadata = vec![("b".into(), format!("{n} \0 é")), ("a".into(), String::new())];
        actor.publishes(Draft { metadata, ..draft("orders", &format!("plain {n}")) }).await;
        actor.publishes(Draft { priority: n - 10, ..keyed("orders", &format!("priority-{n}")) }).await;
    }
    let late = Draft { delay: Some(Millis::from_hours(5)), ..keyed("orders", "late") };
    let overrides = semel_core::job::Overrides {
        max_attempts: Some(2),
        retry: None,
        timeout: Some(Millis::from_secs(77)),
        window: Some(Millis::from_days(9)),
    };
    actor.publishes(Draft { overrides, ..late }).await;
    // The whole queue holds.
    for n in 0..3 {
        actor.publishes(keyed("limits", &format!("limited-{n}"))).await;
    }
    let held = actor.leases("limits", 1).await.remove(0);
    actor.settles(&held, backpressure(DeferScope::Queue)).await;
    out[0].clone()
}
