//! Which publishes go the shortest way and which the short one, and that both do the same.

use std::sync::Arc;

use semel_cluster::{Database, sql_at};
use semel_core::job::Overrides;
use semel_core::lifecycle::State;
use semel_core::name::Group;
use semel_core::payload::Payload;
use semel_core::publish::Published;
use semel_core::queue::QueueConfig;
use semel_core::refusal::Refusal;
use semel_core::time::Millis;
use semel_store::Store;

use super::*;
use crate::apply::known::UNLUCKY;
use crate::apply::scene::{
    NO_LONG_WAY, draft, keyed, open, publish, published, put_queue, queue, with_store,
};

const NO_SHORTEST_WAY: &str = "DROP FUNCTION semel.add_plain";
const NO_SHORT_WAY: &str = "DROP FUNCTION semel.apply_known";

/// The ways that take one call.
#[derive(Debug, Clone, Copy)]
enum Way {
    Shortest,
    Short,
}

impl Way {
    /// What leaves only this way.
    fn alone(self) -> [&'static str; 2] {
        [NO_LONG_WAY, if matches!(self, Self::Short) { NO_SHORTEST_WAY } else { NO_SHORT_WAY }]
    }

    fn draft(self) -> Draft {
        let priority = if matches!(self, Self::Short) { 1 } else { 0 };
        Draft { priority, ..draft() }
    }

    fn keyed(self, key: &str) -> Command {
        Command::Publish(self.draft().with_key(Key::try_from(key).unwrap()).check().unwrap())
    }

    async fn publish(self, store: &PostgresStore, key: &str) -> Result<Published, Refusal> {
        publish(store, self.keyed(key)).await
    }
}

/// Runs a test on both ways, each with a store of its own.
fn on_each_way<F: Future<Output = ()>>(test: impl Fn(Way, Arc<PostgresStore>, Database<'static>) -> F) {
    for way in [Way::Shortest, Way::Short] {
        with_store(|store, database| test(way, store, database));
    }
}

#[test]
fn new_keys_of_a_known_queue_take_one_call() {
    on_each_way(async |way, store, database| {
        sql_at(database.url(), &way.alone()).unwrap();
        let made = way.publish(&store, "second").await.unwrap();
        assert!(!made.deduplicated);
        let job = store.job(made.id).await.unwrap().expect("it is there");
        assert_eq!(job.spec.key, Some(Key::try_from("second").unwrap()));
        assert_eq!(job.spec.payload, Some(Payload::from_json("1").unwrap()));
        assert_eq!((job.spec.created_at, job.spec.run_at), (made.created_at, made.created_at));
        let stats = store.stats().await.unwrap();
        assert_eq!(stats.queues[0].count(State::Pending), 2, "it was counted");
    });
}

#[test]
fn a_key_that_is_known_goes_the_long_way_and_those_after_it_for_a_while() {
    on_each_way(async |way, store, database| {
        assert!(way.publish(&store, "first").await.unwrap().deduplicated);
        for left in (0..UNLUCKY).rev() {
            way.publish(&store, &left.to_string()).await.unwrap();
            assert_eq!(left, store.luck.left(), "{way:?}");
        }
        sql_at(database.url(), &way.alone()).unwrap();
        way.publish(&store, "second").await.expect("it is tried again");
    });
}

#[test]
fn a_key_that_comes_twice_in_a_batch_has_one_job() {
    on_each_way(async |way, store, _| {
        let answers = store.apply(vec![way.keyed("twin"), way.keyed("twin")]).await.unwrap();
        let [one, other] = answers.try_into().expect("there are two");
        let (one, other) = (published(one).unwrap(), published(other).unwrap());
        assert_eq!((one.id, one.deduplicated, other.deduplicated), (other.id, false, true));
    });
}

/// Two batches that take keys in different orders would wait for each other. Rows lie in a table as they were inserted.
#[test]
fn keys_are_taken_in_order_whatever_the_order_of_the_publishes() {
    on_each_way(async |way, store, database| {
        sql_at(database.url(), &way.alone()).unwrap();
        let batch = (0..60).rev().map(|number| way.keyed(&format!("{}-{number}", number % 7))).collect();
        store.apply(batch).await.unwrap();
        let disorder = "SELECT count(*) FILTER (WHERE key < before), count(before) > 40
                          FROM (SELECT key, lag(key) OVER (PARTITION BY tableoid ORDER BY ctid) AS before
                                  FROM semel.key WHERE key <> 'first') AS laid";
        assert_eq!(sql_at(database.url(), &[disorder]).unwrap(), "0|t", "{way:?}");
    });
}

#[test]
fn settings_that_another_node_changed_count_at_once() {
    on_each_way(async |way, store, database| {
        let other = open(&database).await;
        put_queue(&other, QueueConfig { require_key: true, ..QueueConfig::default() }).await;
        let keyless = Command::Publish(way.draft().check().unwrap());
        assert_eq!(publish(&store, keyless).await, Err(Refusal::KeyRequired(queue())));
        other.abandon();
    });
}

#[test]
fn a_queue_that_another_node_deleted_is_gone() {
    on_each_way(async |way, store, database| {
        let other = open(&database).await;
        sql_at(database.url(), &["DELETE FROM semel.live"]).unwrap();
        let answers = other.apply(vec![Command::DeleteQueue(queue())]).await.unwrap();
        assert_eq!(answers, [Ok(Reply::Done)]);
        assert!(matches!(way.publish(&store, "second").await, Err(Refusal::QueueNotFound(_))));
        other.abandon();
    });
}

#[test]
fn a_clock_that_lost_the_database_does_not_decide() {
    on_each_way(async |way, store, database| {
        let told = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let now: i64 = sql_at(database.url(), &[told]).unwrap().parse().unwrap();
        store.clock.decides(now + 3_600_000);
        let made = way.publish(&store, "second").await.unwrap();
        assert!(sql_time(made.created_at) < now + 60_000, "{made:?}");
        sql_at(database.url(), &way.alone()).unwrap();
        way.publish(&store, "third").await.expect("it was set right");
    });
}

#[test]
fn a_publish_without_a_key_and_one_that_is_refused_are_among_the_others() {
    on_each_way(async |way, store, database| {
        put_queue(&store, QueueConfig { payload_limit: 1024, ..QueueConfig::default() }).await;
        way.publish(&store, "second").await.expect("the new settings are known");
        sql_at(database.url(), &way.alone()).unwrap();
        let large = Payload::from_json(format!("{:?}", "x".repeat(1024))).unwrap();
        let large = Draft { payload: large, ..way.draft() }.with_key(Key::try_from("large").unwrap());
        let keyless = Command::Publish(way.draft().check().unwrap());
        let batch = vec![keyless, Command::Publish(large.check().unwrap()), way.keyed("third")];
        let [keyless, large, third] =
            store.apply(batch).await.unwrap().try_into().expect("there is an answer to each");
        assert!(matches!(large, Err(Refusal::PayloadTooLarge { .. })), "{large:?}");
        for (made, key) in [(keyless, None), (third, Some(Key::try_from("third").unwrap()))] {
            let job = store.job(published(made).unwrap().id).await.unwrap().expect("it is there");
            assert_eq!(job.spec.key, key);
        }
        let key = Key::try_from("large").unwrap();
        assert_eq!(store.key(&queue(), &key).await.unwrap(), None, "nothing is left of it");
        let stats = store.stats().await.unwrap();
        assert_eq!(stats.queues[0].count(State::Pending), 4, "what was made was counted, and nothing else");
    });
}

#[test]
fn nothing_is_written_for_publishes_that_are_all_refused() {
    with_store(async |store, database| {
        put_queue(&store, QueueConfig { require_key: true, ..QueueConfig::default() }).await;
        publish(&store, keyed("second")).await.expect("the new settings are known");
        sql_at(database.url(), &Way::Shortest.alone()).unwrap();
        let tallies = || sql_at(database.url(), &["SELECT count(*) FROM semel.tally"]).unwrap();
        let before = tallies();
        let keyless = Command::Publish(draft().check().unwrap());
        assert_eq!(publish(&store, keyless).await, Err(Refusal::KeyRequired(queue())));
        assert_eq!(tallies(), before);
    });
}

#[test]
fn only_publishes_that_say_nothing_for_themselves_are_plain() {
    let plain = |drafts: &[&Draft]| {
        let batch: Vec<_> =
            drafts.iter().map(|draft| Command::Publish((*draft).clone().check().unwrap())).collect();
        Plain::of(&batch).is_some()
    };
    let simple = Draft { publisher: Some("a label".into()), ..draft() };
    assert!(plain(&[&simple, &simple]), "publishes without keys do not meet");
    let others = [
        Draft { delay: Some(Millis::from_secs(1)), ..draft() },
        Draft { run_at: Some(Timestamp::from_millis(1)), ..draft() },
        Draft { priority: -1, ..draft() },
        Draft { group: Some(Group::try_from("g").unwrap()), ..draft() },
        Draft { metadata: vec![("a".into(), "b".into())], ..draft() },
        Draft { overrides: Overrides { max_attempts: Some(2), ..Overrides::default() }, ..draft() },
        Draft { queue: QueueName::try_from("another").unwrap(), ..draft() },
    ];
    for other in &others {
        assert!(!plain(&[&simple, other]), "{other:?}");
    }
    assert!(!plain(&[]));
}

/// What a call may be in bytes. It is made and moved with every commit.
const CALL_MAX: usize = 8 * 1024;

#[test]
fn a_commit_has_no_room_for_what_seldom_happens() {
    with_store(async |store, _| {
        let batch = [keyed("second")];
        let size = size_of_val(&store.apply_batch(&batch));
        assert!(size <= CALL_MAX, "{size} bytes: does making a connection have a box of its own?");
    });
}
