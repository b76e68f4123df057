//! Formats live longer than programs: a store written by the first version must mean the same to every later one.
//!
//! `tests/fixtures/format-1` was written by the program that introduced format 1. It is never written again; a new format
//! gets a folder of its own (`SEMEL_WRITE_FIXTURE=tests/fixtures/format-N cargo nextest run -p semel-store-embedded
//! format`, once) and this file a line more.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel_core::key::Key;
use semel_core::lease::LeaseRequest;
use semel_core::lifecycle::State;
use semel_core::name::{Group, QueueName};
use semel_core::outcome::{Effect, Outcome, Receipt};
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::records::{ApiKeyRecord, ScheduleRecord, Scope, WebhookSecret};
use semel_core::replay::{ReplayCounts, ReplayFilter, ReplayRecord, ReplayState};
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Clock, Command, JobQuery, ManualClock, Store};
use semel_store_embedded::check::check;
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn open(dir: &Path) -> (EmbeddedStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    let clock_too: Arc<dyn Clock> = clock.clone();
    let options = Options {
        clock: clock_too,
        reserve_bytes: 0,
        run_keys: 32,
        segment_jobs: 50,
        chunk_ids: 8,
        ..Options::default()
    };
    (EmbeddedStore::open(dir, options).unwrap(), clock)
}

fn queue() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

fn draft(n: usize) -> Draft {
    let mut draft =
        Draft::new(queue(), Payload::from_json(format!(r#"{{"order": {n}, "ü": "\u00fc"}}"#)).unwrap());
    draft.key = (!n.is_multiple_of(7)).then(|| Key::try_from(format!("order-{n}")).unwrap());
    draft.priority = i64::from(n.is_multiple_of(11)) * -3;
    draft.delay = (n.is_multiple_of(13)).then_some(Millis::from_secs(3600));
    draft.group = (n.is_multiple_of(5)).then(|| Group::try_from(format!("customer {}", n % 3)).unwrap());
    draft.metadata = if n.is_multiple_of(4) { vec![("tenant".into(), n.to_string())] } else { Vec::new() };
    draft.overrides.max_attempts = (n.is_multiple_of(9)).then_some(2);
    draft.overrides.window = (n.is_multiple_of(10)).then_some(Millis::from_secs(5));
    draft
}

/// A history that leaves something in every table.
async fn write(dir: &Path) {
    let (store, clock) = open(dir);
    let config = QueueConfig { group_concurrency: Some(1), ..QueueConfig::default() };
    let schedule = ScheduleRecord {
        name: "nightly".into(),
        queue: queue(),
        cron: "0 3 * * *".into(),
        zone: "Europe/Berlin".into(),
        payload: "{}".into(),
        next_at: START,
    };
    let api_key = ApiKeyRecord {
        id: "key_1".into(),
        hash: "ab".repeat(32),
        label: "first".into(),
        scopes: vec![Scope::Publish, Scope::Work],
        queues: vec!["*".into()],
        created_at: START,
        expires_at: None,
        last_used_at: None,
    };
    let records = vec![
        Command::PutQueue { name: queue(), config: Box::new(config) },
        Command::PutSchedule(Box::new(schedule)),
        Command::PutApiKey(Box::new(api_key)),
    ];
    store.apply(records).await.unwrap();
    for round in 0..6usize {
        let batch = (round * 40..round * 40 + 40).map(|n| Command::Publish(draft(n).check().unwrap()));
        store.apply(batch.collect()).await.unwrap();
        clock.advance(Millis::from_secs(2));
        let deliveries = store.lease(LeaseRequest::new(queue(), 20, None).unwrap()).await.unwrap();
        let settles = deliveries.iter().enumerate().map(|(i, d)| {
            let report = Report {
                from_worker: i.is_multiple_of(2),
                status_code: Some(500),
                duration: Some(Millis::from_millis(7)),
                ..Report::default()
            };
            Command::Settle(Settle::new(d.id, Some(d.token), outcome(i), report).unwrap())
        });
        store.apply(settles.collect()).await.unwrap();
    }
    let mut repeat = draft(1);
    repeat.publisher = Some("10.0.0.1".into());
    let mut repeats =
        vec![Command::Publish(repeat.check().unwrap()), Command::Publish(draft(2).check().unwrap())];
    let newest = store.jobs(JobQuery { limit: 1, ..JobQuery::default() }).await.unwrap().items.remove(0).id;
    repeats.push(Command::Cancel(newest));
    store.apply(repeats).await.unwrap();
    store.close().await.unwrap();
}

fn outcome(i: usize) -> Outcome {
    let effect = Receipt { outcome: Effect::Applied, key: Some("charge-1".into()) };
    match i % 5 {
        0 => Outcome::Done { result: Some(Payload::from_json("[1,2]").unwrap()), effect: Some(effect) },
        1 => Outcome::Failed { error: "the provider is down".into() },
        2 => Outcome::Rejected { error: "no such customer".into() },
        3 => Outcome::Backpressure {
            retry_after: Some(Millis::from_secs(1)),
            scope: Some(semel_core::outcome::DeferScope::Job),
            reason: None,
        },
        _ => Outcome::Done { result: None, effect: None },
    }
}

/// Everything that callers can see of a store.
async fn read(dir: &Path) -> String {
    let (store, _clock) = open(dir);
    let page = store.jobs(JobQuery { limit: 1000, ..JobQuery::default() }).await.unwrap();
    let mut seen = format!("{:#?}\n{:#?}\n", page.items, store.queues().await.unwrap());
    seen += &format!("{:#?}\n{:#?}\n", store.schedules().await.unwrap(), store.api_keys().await.unwrap());
    seen += &format!("{:#?}\n", store.replays().await.unwrap());
    seen += &format!("{:#?}\n", store.stats().await.unwrap());
    for n in 0..240 {
        let key = Key::try_from(format!("order-{n}")).unwrap();
        seen += &format!("{:?}\n", store.key(&queue(), &key).await.unwrap());
    }
    store.close().await.unwrap();
    seen
}

fn copy_of(fixture: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    for (from, to) in
        [(fixture.to_owned(), copy.path().to_owned()), (fixture.join("keys"), copy.path().join("keys"))]
    {
        fs::create_dir_all(&to).unwrap();
        for entry in
            fs::read_dir(&from).unwrap().map(Result::unwrap).filter(|e| e.file_type().unwrap().is_file())
        {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    copy
}

#[tokio::test]
async fn the_first_format_still_means_the_same() {
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    if let Ok(target) = std::env::var("SEMEL_WRITE_FIXTURE") {
        let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(target);
        assert!(!target.exists(), "a fixture is written once");
        write(&target).await;
        fs::remove_file(target.join("semel.lock")).unwrap();
    }
    let copy = copy_of(&fixture);
    let report = check(copy.path(), &mut |_| {}).unwrap();
    assert!(report.is_sound() && report.jobs == 240 && report.keys > 200, "{report:#?}");
    let today = TempDir::new().unwrap();
    write(today.path()).await;
    let (then, now) = (read(copy.path()).await, read(today.path()).await);
    let differs = then.lines().zip(now.lines()).find(|(a, b)| a != b);
    assert_eq!(differs, None, "the store of the first format is read differently");
    assert_eq!(then.len(), now.len());
}

fn replay_task() -> ReplayRecord {
    ReplayRecord {
        id: "r1".into(),
        queue: queue(),
        filter: ReplayFilter::default(),
        rate: None,
        dry_run: false,
        state: ReplayState::Running,
        created_at: START,
        finished_at: None,
        cursor: None,
        counts: ReplayCounts::default(),
    }
}

/// Replay tasks, secrets and the time of a replay came after the fixture was written.
#[tokio::test]
async fn a_store_of_the_first_format_takes_what_came_later() {
    let copy = copy_of(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1"));
    let secret = WebhookSecret { secret: "whsec".into(), created_at: START, expires_at: None };
    let (store, _clock) = open(copy.path());
    assert_eq!(store.replays().await.unwrap(), []);
    assert_eq!(store.queue(&queue()).await.unwrap().unwrap().secrets, []);
    let query = JobQuery { state: Some(State::Dead), limit: 1, ..JobQuery::default() };
    let dead = store.jobs(query).await.unwrap().items.remove(0);
    assert_eq!(dead.progress.replayed_at, None);
    let batch = vec![
        Command::PutReplay(Box::new(replay_task())),
        Command::PutSecrets { queue: queue(), secrets: vec![secret.clone()] },
        Command::Replay(dead.id),
    ];
    assert!(store.apply(batch).await.unwrap().iter().all(Result::is_ok));
    drop(store);
    let report = check(copy.path(), &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report:#?}");
    let (store, _clock) = open(copy.path());
    assert_eq!(store.replays().await.unwrap(), [replay_task()]);
    assert_eq!(store.queue(&queue()).await.unwrap().unwrap().secrets, [secret]);
    let replayed = store.job(dead.id).await.unwrap().unwrap().progress;
    assert_eq!((replayed.state, replayed.replayed_at), (State::Pending, Some(START)));
}
