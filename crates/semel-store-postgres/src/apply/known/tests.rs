//! Which batches go the short way, and that nothing is left of those that do not.

use semel_cluster::{Database, sql_at};
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Published};
use semel_core::queue::QueueConfig;
use semel_core::refusal::Refusal;
use semel_core::settle::{Report, Settle};
use semel_core::time::Millis;
use semel_store::{Reply, Store};

use super::*;
use crate::options::Options;
use crate::scratch;

const NO_LONG_WAY: &str = "DROP FUNCTION semel.lock_queues";

/// Runs a test against a store with one queue that it has published to.
fn with_store<F: Future<Output = ()>>(test: impl FnOnce(Arc<PostgresStore>, Database<'static>) -> F) {
    let (database, runtime) = (scratch::database(), scratch::runtime());
    runtime.block_on(async {
        let store = Arc::new(open(&database).await);
        put_queue(&store, QueueConfig::default()).await;
        publish(&store, "first").await.unwrap();
        test(Arc::clone(&store), database).await;
        store.abandon();
    });
}

async fn open(database: &Database<'_>) -> PostgresStore {
    PostgresStore::open(database.url(), Options::default()).await.unwrap()
}

async fn put_queue(store: &PostgresStore, config: QueueConfig) {
    let command = Command::PutQueue { name: queue(), config: Box::new(config) };
    assert_eq!(store.apply(vec![command]).await.unwrap(), [Ok(Reply::Done)]);
}

fn queue() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

fn draft() -> Draft {
    Draft::new(queue(), Payload::from_json("1").unwrap())
}

fn keyed(key: &str) -> Command {
    Command::Publish(draft().with_key(Key::try_from(key).unwrap()).check().unwrap())
}

async fn publish(store: &PostgresStore, key: &str) -> Result<Published, Refusal> {
    match store.apply(vec![keyed(key)]).await.unwrap().remove(0)? {
        Reply::Published(published) => Ok(published),
        other => panic!("a publish was answered {other:?}"),
    }
}

#[test]
fn new_keys_of_a_known_queue_go_the_short_way() {
    with_store(async |store, database| {
        sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
        let made = publish(&store, "second").await.unwrap();
        assert!(!made.deduplicated);
        let job = store.job(made.id).await.unwrap().expect("it is there");
        assert_eq!(job.spec.key, Some(Key::try_from("second").unwrap()));
        let stats = store.stats().await.unwrap();
        assert_eq!(stats.queues[0].count(semel_core::lifecycle::State::Pending), 2, "it was counted");
    });
}

#[test]
fn a_key_that_is_known_goes_the_long_way_and_those_after_it_for_a_while() {
    with_store(async |store, database| {
        assert!(publish(&store, "first").await.unwrap().deduplicated);
        for left in (0..UNLUCKY).rev() {
            publish(&store, &left.to_string()).await.unwrap();
            assert_eq!(left, store.luck.0.load(Ordering::Relaxed));
        }
        sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
        publish(&store, "second").await.expect("the short way is tried again");
    });
}

#[test]
fn a_key_that_comes_twice_in_a_batch_has_one_job() {
    with_store(async |store, _| {
        let answers = store.apply(vec![keyed("twin"), keyed("twin")]).await.unwrap();
        let [Ok(Reply::Published(one)), Ok(Reply::Published(other))] = answers.as_slice() else {
            panic!("{answers:?}")
        };
        assert_eq!((one.id, one.deduplicated, other.deduplicated), (other.id, false, true));
    });
}

#[test]
fn settings_that_another_node_changed_count_at_once() {
    with_store(async |store, database| {
        let other = open(&database).await;
        put_queue(&other, QueueConfig { require_key: true, ..QueueConfig::default() }).await;
        let keyless = Command::Publish(draft().check().unwrap());
        let answers = store.apply(vec![keyless]).await.unwrap();
        assert_eq!(answers, [Err(Refusal::KeyRequired(queue()))]);
        other.abandon();
    });
}

#[test]
fn a_queue_that_another_node_deleted_is_gone() {
    with_store(async |store, database| {
        let other = open(&database).await;
        sql_at(database.url(), &["DELETE FROM semel.live"]).unwrap();
        let answers = other.apply(vec![Command::DeleteQueue(queue())]).await.unwrap();
        assert_eq!(answers, [Ok(Reply::Done)]);
        assert!(matches!(publish(&store, "second").await, Err(Refusal::QueueNotFound(_))));
        other.abandon();
    });
}

#[test]
fn a_clock_that_lost_the_database_does_not_decide() {
    with_store(async |store, database| {
        let told = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let now: i64 = sql_at(database.url(), &[told]).unwrap().parse().unwrap();
        store.clock.decides(now + 3_600_000);
        let made = publish(&store, "second").await.unwrap();
        assert!(sql_time(made.created_at) < now + 60_000, "{made:?}");
        sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
        publish(&store, "third").await.expect("it was set right");
    });
}

async fn lease(store: &PostgresStore) -> Delivery {
    let request = LeaseRequest::new(queue(), 1, None).unwrap();
    store.lease(request).await.unwrap().pop().expect("a job is ready")
}

fn settle(delivery: &Delivery, outcome: Outcome) -> Command {
    Command::Settle(Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap())
}

fn done() -> Outcome {
    Outcome::Done { result: Some(Payload::from_json("[1]").unwrap()), effect: None }
}

async fn state(store: &PostgresStore, delivery: &Delivery) -> State {
    store.job(delivery.id).await.unwrap().expect("it is there").progress.state
}

#[test]
fn what_this_node_handed_out_ends_the_short_way_together_with_publishes() {
    with_store(async |store, database| {
        sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
        let delivery = lease(&store).await;
        let batch = vec![settle(&delivery, done()), keyed("second"), settle(&delivery, done())];
        let answers = store.apply(batch).await.unwrap();
        let repeated = |answer: &Answer| match answer {
            Ok(Reply::Settled { state: State::Completed, repeated, .. }) => *repeated,
            other => panic!("a settle was answered {other:?}"),
        };
        assert_eq!((repeated(&answers[0]), repeated(&answers[2])), (false, true));
        let job = store.job(delivery.id).await.unwrap().expect("it is there");
        assert_eq!((job.progress.attempts, job.progress.history.len()), (1, 1));
        assert_eq!(job.progress.result, Some(Payload::from_json("[1]").unwrap()));
        let stats = store.stats().await.unwrap();
        let counts = [State::Pending, State::Completed].map(|state| stats.queues[0].count(state));
        assert_eq!(counts, [1, 1], "all was counted");
    });
}

#[test]
fn a_failure_and_a_job_of_which_more_is_known_go_the_long_way() {
    with_store(async |store, database| {
        let failed = settle(&lease(&store).await, Outcome::Failed { error: "no".into() });
        let answers = store.apply(vec![failed]).await.unwrap();
        assert!(matches!(answers[0], Ok(Reply::Settled { state: State::Pending, .. })), "{answers:?}");
        sql_at(database.url(), &["UPDATE semel.live SET due = 0"]).unwrap();
        let again = lease(&store).await;
        assert!(store.handed_out.take([again.id].iter()).is_none(), "it has a history");
        store.apply(vec![settle(&again, done())]).await.unwrap()[0].clone().unwrap();
        let job = store.job(again.id).await.unwrap().expect("it is there");
        assert_eq!(job.progress.history.len(), 2);
    });
}

#[test]
fn a_key_that_was_released_meanwhile_stays_released() {
    with_store(async |store, _| {
        let delivery = lease(&store).await;
        let key = Key::try_from("first").unwrap();
        let release = Command::ReleaseKey { queue: queue(), key, reason: "a mistake".into() };
        store.apply(vec![release]).await.unwrap()[0].clone().unwrap();
        store.apply(vec![settle(&delivery, done())]).await.unwrap()[0].clone().unwrap();
        let job = store.job(delivery.id).await.unwrap().expect("it is there");
        assert_eq!(job.progress.released.as_deref(), Some("a mistake"));
        assert_eq!(job.progress.state, State::Completed);
    });
}

#[test]
fn a_lease_that_another_took_over_is_stale_and_the_publish_beside_it_is_not() {
    with_store(async |store, database| {
        let delivery = lease(&store).await;
        sql_at(database.url(), &["UPDATE semel.live SET token = token + 1"]).unwrap();
        let answers = store.apply(vec![keyed("second"), settle(&delivery, done())]).await.unwrap();
        assert!(matches!(answers[0], Ok(Reply::Published(_))), "{answers:?}");
        assert!(matches!(answers[1], Err(Refusal::StaleLease { .. })), "{answers:?}");
        assert_eq!(state(&store, &delivery).await, State::Processing);
        let next = lease(&store).await;
        assert_eq!(next.attempt, 1, "the publish is there once, and nothing is left of the first try");
    });
}

#[test]
fn what_a_job_says_for_itself_comes_back() {
    with_store(async |store, database| {
        sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
        let mut draft = draft().with_key(Key::try_from("rich").unwrap());
        draft.priority = 7;
        draft.delay = Some(Millis::from_secs(60));
        draft.metadata = [("tenant".to_owned(), "a".to_owned())].into_iter().collect();
        let batch = vec![Command::Publish(draft.check().unwrap()), keyed("plain")];
        let answers = store.apply(batch).await.unwrap();
        let ids = answers.iter().map(|answer| match answer {
            Ok(Reply::Published(published)) => published.id,
            other => panic!("a publish was answered {other:?}"),
        });
        let [rich, plain] = ids.collect::<Vec<_>>().try_into().expect("there are two");
        let (rich, plain) =
            (store.job(rich).await.unwrap().unwrap(), store.job(plain).await.unwrap().unwrap());
        assert_eq!((rich.spec.priority.get(), plain.spec.priority.get()), (7, 0));
        assert_eq!(rich.spec.run_at, rich.spec.created_at.plus(Millis::from_secs(60)));
        assert_eq!(rich.progress.due, rich.spec.run_at);
        assert_eq!(plain.spec.run_at, plain.spec.created_at);
        assert_eq!((rich.spec.metadata.len(), plain.spec.metadata.len()), (1, 0));
    });
}
