//! What the wall counts and says, on the memory store, read the way Prometheus and an operator read it.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report, in its helpers too")]

use std::io::Write;
use std::sync::{Arc, Mutex};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use semel_core::ids::{JobId, Token};
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::{Group, QueueName};
use semel_core::outcome::{Effect, Outcome, Receipt};
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::{OnCollision, QueueConfig};
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::observed::{Metrics, Observed};
use semel_store::{Answer, Command, JobQuery, ManualClock, MemoryStore, Store};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

/// A watched memory store with a queue `orders`, and its registry.
struct Bench {
    store: Observed,
    memory: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    registry: Registry,
}

fn orders() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

impl Bench {
    async fn new() -> Self {
        Self::with(QueueConfig::default()).await
    }

    async fn with(config: QueueConfig) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let memory = Arc::new(MemoryStore::new(clock.clone()));
        let mut registry = Registry::default();
        let store = Observed::new(memory.clone(), Metrics::register(&mut registry));
        let bench = Self { store, memory, clock, registry };
        bench.apply(Command::PutQueue { name: orders(), config: Box::new(config) }).await.unwrap();
        bench
    }

    async fn apply(&self, command: Command) -> Answer {
        self.store.apply(vec![command]).await.unwrap().remove(0)
    }

    async fn publish(&self, key: &str, payload: &'static str) -> Answer {
        self.apply(publish(orders(), key, payload)).await
    }

    /// Publishes a job and leases it.
    async fn deliver(&self, key: &str) -> Delivery {
        self.publish(key, "1").await.unwrap();
        lease(&self.store).await
    }

    async fn settle(&self, delivery: &Delivery, outcome: Outcome) -> Answer {
        self.apply(settle(delivery.id, delivery.token, outcome)).await
    }

    /// The metrics as a scrape shows them.
    fn scrape(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Asserts that a scrape has these lines.
    fn shows(&self, lines: &[&str]) {
        let text = self.scrape();
        for line in lines {
            assert!(text.lines().any(|shown| shown == *line), "{line} is missing in:\n{text}");
        }
    }

    fn never_mentions(&self, what: &str) {
        let text = self.scrape();
        assert!(!text.contains(what), "{what} is in:\n{text}");
    }
}

fn publish(queue: QueueName, key: &str, payload: &'static str) -> Command {
    let draft = Draft::new(queue, Payload::from_json(payload).unwrap()).with_key(Key::try_from(key).unwrap());
    Command::Publish(draft.check().unwrap())
}

fn settle(id: JobId, token: Token, outcome: Outcome) -> Command {
    Command::Settle(Settle::new(id, Some(token), outcome, Report::default()).unwrap())
}

async fn lease(store: &dyn Store) -> Delivery {
    store.lease(LeaseRequest::new(orders(), 1, None).unwrap()).await.unwrap().remove(0)
}

fn done(effect: Option<Effect>) -> Outcome {
    Outcome::Done { result: None, effect: effect.map(|outcome| Receipt { outcome, key: None }) }
}

fn failed() -> Outcome {
    Outcome::Failed { error: "no".into() }
}

#[tokio::test]
async fn a_duplicate_publish_is_counted_at_its_door() {
    let bench = Bench::new().await;
    for _ in 0..3 {
        bench.publish("order-1", "1").await.unwrap();
    }
    bench.shows(&[
        r#"semel_publishes_total{queue="orders",outcome="created"} 1"#,
        r#"semel_publishes_total{queue="orders",outcome="deduplicated"} 2"#,
        r#"semel_job_duplicates_total{queue="orders",door="publish"} 2"#,
    ]);
}

#[tokio::test]
async fn a_collision_is_counted_whether_or_not_it_is_let_pass() {
    let flags = Bench::new().await;
    let rejects =
        Bench::with(QueueConfig { on_collision: OnCollision::Reject, ..QueueConfig::default() }).await;
    for bench in [&flags, &rejects] {
        bench.publish("order-1", "1").await.unwrap();
        let second = bench.publish("order-1", "2").await;
        assert_eq!(second.is_ok(), std::ptr::eq(bench, &flags));
        bench.shows(&[r#"semel_publishes_total{queue="orders",outcome="collision"} 1"#]);
        bench.never_mentions("deduplicated");
    }
    flags.shows(&[r#"semel_job_duplicates_total{queue="orders",door="publish"} 1"#]);
    rejects.never_mentions("semel_job_duplicates_total{");
}

#[tokio::test]
async fn a_queue_that_does_not_exist_gets_no_label() {
    let bench = Bench::new().await;
    for name in ["made-up-1", "made-up-2"] {
        bench.apply(publish(QueueName::try_from(name).unwrap(), "k", "1")).await.unwrap_err();
    }
    let nothing = LeaseRequest::new(QueueName::try_from("made-up-3").unwrap(), 1, None).unwrap();
    assert!(bench.store.lease(nothing).await.unwrap().is_empty());
    bench.shows(&[r#"semel_publishes_total{queue="",outcome="rejected"} 2"#]);
    bench.never_mentions("made-up");
}

#[tokio::test]
async fn every_end_of_a_delivery_is_counted_once() {
    let bench = Bench::new().await;
    let backpressure = Outcome::Backpressure {
        retry_after: None,
        scope: Some(semel_core::queue::DeferScope::Job),
        reason: None,
    };
    let ends = [done(None), failed(), backpressure, Outcome::Rejected { error: "never".into() }];
    for (number, end) in ends.into_iter().enumerate() {
        let delivery = bench.deliver(&format!("order-{number}")).await;
        for _again in 0..2 {
            bench.settle(&delivery, end.clone()).await.unwrap();
        }
    }
    bench.shows(&[
        r#"semel_deliveries_total{queue="orders",outcome="leased"} 4"#,
        r#"semel_deliveries_total{queue="orders",outcome="done"} 1"#,
        r#"semel_deliveries_total{queue="orders",outcome="failed"} 1"#,
        r#"semel_deliveries_total{queue="orders",outcome="deferred"} 1"#,
        r#"semel_deliveries_total{queue="orders",outcome="rejected"} 1"#,
        "semel_retry_delay_seconds_count 1",
    ]);
}

#[tokio::test]
async fn a_delivery_that_was_received_is_still_known_when_it_is_done() {
    let bench = Bench::new().await;
    let delivery = bench.deliver("order-1").await;
    bench.settle(&delivery, Outcome::Received).await.unwrap();
    bench.settle(&delivery, done(None)).await.unwrap();
    bench.shows(&[
        r#"semel_deliveries_total{queue="orders",outcome="received"} 1"#,
        r#"semel_deliveries_total{queue="orders",outcome="done"} 1"#,
    ]);
}

#[tokio::test]
async fn receipts_are_counted_and_a_replayed_effect_is_a_duplicate_stopped_at_its_door() {
    let bench = Bench::new().await;
    let receipts = [Some(Effect::Applied), Some(Effect::Replayed), Some(Effect::None), None];
    for (number, receipt) in receipts.into_iter().enumerate() {
        let delivery = bench.deliver(&format!("order-{number}")).await;
        bench.settle(&delivery, done(receipt)).await.unwrap();
    }
    bench.shows(&[
        r#"semel_effects_total{queue="orders",outcome="applied"} 1"#,
        r#"semel_effects_total{queue="orders",outcome="replayed"} 1"#,
        r#"semel_effects_total{queue="orders",outcome="none"} 1"#,
        r#"semel_effects_total{queue="orders",outcome="unreported"} 1"#,
        r#"semel_job_duplicates_total{queue="orders",door="effect"} 1"#,
    ]);
}

#[tokio::test]
async fn a_lease_that_ran_out_and_the_late_settle_are_counted() {
    let bench = Bench::new().await;
    let late = bench.deliver("order-1").await;
    bench.clock.advance(Millis::from_hours(13));
    bench.apply(Command::Rescue { limit: 10 }).await.unwrap();
    bench.clock.advance(Millis::from_hours(13));
    lease(&bench.store).await;
    bench.settle(&late, done(None)).await.unwrap_err();
    bench.shows(&[
        r#"semel_lease_expirations_total{queue="orders"} 1"#,
        r#"semel_deliveries_total{queue="orders",outcome="expired"} 1"#,
        r#"semel_deliveries_total{queue="",outcome="stale"} 1"#,
        r#"semel_deliveries_total{queue="orders",outcome="leased"} 2"#,
    ]);
    bench.never_mentions(r#"outcome="done""#);
}

#[tokio::test]
async fn a_delivery_that_somebody_else_leased_is_counted_under_its_queue() {
    let bench = Bench::new().await;
    bench.publish("order-1", "1").await.unwrap();
    let delivery = lease(bench.memory.as_ref()).await;
    bench.settle(&delivery, done(None)).await.unwrap();
    bench.shows(&[r#"semel_deliveries_total{queue="orders",outcome="done"} 1"#]);
}

#[tokio::test]
async fn the_gauges_show_the_last_count() {
    let bench = Bench::new().await;
    bench.never_mentions("semel_queue_depth");
    for key in ["a", "b", "c"] {
        bench.publish(key, "1").await.unwrap();
    }
    let delivery = lease(&bench.store).await;
    bench.settle(&delivery, Outcome::Rejected { error: "never".into() }).await.unwrap();
    lease(&bench.store).await;
    bench.clock.advance(Millis::from_millis(1500));
    bench.store.stats().await.unwrap();
    bench.shows(&[
        r#"semel_queue_depth{queue="orders",status="pending"} 1"#,
        r#"semel_queue_depth{queue="orders",status="processing"} 1"#,
        r#"semel_queue_depth{queue="orders",status="awaiting_ack"} 0"#,
        r#"semel_dead_letters{queue="orders"} 1"#,
        r#"semel_oldest_ready_age_seconds{queue="orders"} 1.5"#,
    ]);
}

#[tokio::test]
async fn the_gauges_show_the_last_look_and_no_more_than_is_known() {
    let bench = Bench::new().await;
    for key in ["a", "b", "a"] {
        bench.publish(key, "1").await.unwrap();
    }
    bench.never_mentions("semel_keys");
    bench.store.health().await.unwrap();
    bench.shows(&["semel_keys 2"]);
    bench.never_mentions("_bytes");
}

#[tokio::test]
async fn what_alerts_watch_is_there_before_it_counts() {
    let bench = Bench::new().await;
    bench.never_mentions("orders");
    bench.store.stats().await.unwrap();
    bench.shows(&[
        r#"semel_publishes_total{queue="orders",outcome="collision"} 0"#,
        r#"semel_job_duplicates_total{queue="orders",door="publish"} 0"#,
        r#"semel_lease_expirations_total{queue="orders"} 0"#,
    ]);
}

#[tokio::test]
async fn a_queue_that_another_node_deleted_takes_its_series_with_it() {
    let bench = Bench::new().await;
    bench.store.stats().await.unwrap();
    bench.memory.apply(vec![Command::DeleteQueue(orders())]).await.unwrap();
    bench.store.stats().await.unwrap();
    bench.never_mentions("orders");
}

#[tokio::test]
async fn a_queue_that_is_deleted_takes_its_series_with_it() {
    let bench = Bench::new().await;
    let delivery = bench.deliver("order-1").await;
    bench.publish("order-1", "1").await.unwrap();
    bench.settle(&delivery, done(Some(Effect::Replayed))).await.unwrap();
    bench.store.stats().await.unwrap();
    assert!(bench.scrape().contains("orders"));
    bench.apply(Command::DeleteQueue(orders())).await.unwrap();
    bench.store.stats().await.unwrap();
    bench.never_mentions("orders");
}

#[tokio::test]
async fn commits_are_measured_and_errors_counted_by_kind() {
    let bench = Bench::new().await;
    bench.store.apply((0..3).map(|n| publish(orders(), &format!("k{n}"), "1")).collect()).await.unwrap();
    bench.store.jobs(JobQuery { limit: 0, ..JobQuery::default() }).await.unwrap_err();
    bench.store.close().await.unwrap();
    bench.store.stats().await.unwrap_err();
    bench.store.apply(vec![publish(orders(), "late", "1")]).await.unwrap_err();
    bench.shows(&[
        "semel_commit_batch_size_sum 4.0",
        "semel_commit_batch_size_count 2",
        "semel_commit_duration_seconds_count 2",
        r#"semel_store_errors_total{outcome="closed"} 2"#,
        r#"semel_store_errors_total{outcome="invalid"} 1"#,
    ]);
}

/// Everything that is logged, at every level.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<u8>>>);

impl Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Journal {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn traces_tell_what_happened_and_no_secrets() {
    let journal = Journal::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(journal.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let bench =
        Bench::with(QueueConfig { on_collision: OnCollision::Reject, ..QueueConfig::default() }).await;
    let mut draft = Draft::new(orders(), Payload::from_json(r#"{"card":"secret-payload"}"#).unwrap());
    draft.key = Some(Key::try_from("secret-key").unwrap());
    draft.group = Some(Group::try_from("secret-group").unwrap());
    bench.apply(Command::Publish(draft.check().unwrap())).await.unwrap();
    bench.publish("secret-key", r#"{"card":"secret-other"}"#).await.unwrap_err();
    bench.store.key(&orders(), &Key::try_from("secret-key").unwrap()).await.unwrap().unwrap();
    bench.publish("secret-key", r#"{"card":"secret-payload"}"#).await.unwrap();
    let delivery = lease(&bench.store).await;
    bench.settle(&delivery, Outcome::Failed { error: "secret-error".into() }).await.unwrap();
    let effect = Receipt { outcome: Effect::Replayed, key: Some("secret-effect".into()) };
    let delivery = bench.deliver("secret-again").await;
    let done = Outcome::Done { result: None, effect: Some(effect) };
    bench.settle(&delivery, done).await.unwrap();
    bench.store.close().await.unwrap();
    bench.store.stats().await.unwrap_err();

    let text = String::from_utf8(journal.0.lock().unwrap().clone()).unwrap();
    for expected in [
        "store.apply{commands=1}",
        r#"command="publish" code="key_collision""#,
        r#"event="job.collision" queue=orders"#,
        r#"event="job.deduplicated" queue=orders"#,
        r#"event="effect.replayed" queue=orders"#,
        r#"kind="closed""#,
    ] {
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    assert!(text.lines().any(|line| line.contains("WARN store.stats")), "{text}");
    assert!(!text.contains("secret"), "{text}");
}
