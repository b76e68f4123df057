//! Opening a store: what is refused and why, nodes and their lanes, partitions.

use std::sync::Arc;

use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::time::{Millis, Timestamp};
use semel_store::{Command, ManualClock, Store, StoreError};
use semel_store_postgres::{Options, PostgresStore};

use crate::harness::{START, cluster, database, empty_database, options, runtime};

/// What is said of a store that cannot be opened.
fn refusal(url: &str) -> String {
    match runtime().block_on(PostgresStore::open(url, Options::default())) {
        Err(StoreError::Open(why)) => why,
        other => panic!("it must not open: {other:?}"),
    }
}

#[test]
fn a_database_that_is_not_there_is_named_with_what_to_do() {
    let database = empty_database();
    let url = database.url().replace(database.name(), "no_such_database");
    let why = refusal(&url);
    assert!(why.contains("no_such_database") && why.contains("createdb"), "{why}");
}

#[test]
fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let why = refusal("postgres://nobody@127.0.0.1:1/nothing");
    assert!(why.contains("check the address"), "{why}");
}

#[test]
fn a_database_in_another_encoding_is_refused() {
    let name = format!("latin_{}", std::process::id());
    let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'");
    cluster().sql("postgres", &create).unwrap();
    let database = empty_database();
    let why = refusal(&database.url().replace(database.name(), &name));
    cluster().sql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)")).unwrap();
    assert!(why.contains("LATIN1") && why.contains("ENCODING 'UTF8'"), "{why}");
}

#[test]
fn a_database_that_takes_no_writes_is_refused() {
    let database = empty_database();
    database
        .sql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name()))
        .unwrap();
    let why = refusal(database.url());
    assert!(why.contains("give the address of the primary"), "{why}");
}

#[test]
fn a_server_that_does_not_wait_for_its_disk_is_refused() {
    let database = empty_database();
    database.sql(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name())).unwrap();
    let why = refusal(database.url());
    assert!(why.contains("synchronous_commit"), "{why}");
}

#[test]
fn every_node_has_a_lane_of_its_own_and_gives_it_back() {
    let database = empty_database();
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    runtime().block_on(async {
        let open = || PostgresStore::open(database.url(), options(&clock));
        let stores = futures_util::future::join_all((0..4).map(|_| open())).await;
        let stores: Vec<_> = stores.into_iter().map(Result::unwrap).collect();
        let mut nodes: Vec<_> = stores.iter().map(PostgresStore::node).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, [0, 1, 2, 3]);
        let second = stores.iter().find(|store| store.node() == 1).unwrap();
        second.close().await.unwrap();
        assert!(matches!(second.queues().await, Err(StoreError::Closed)));
        assert_eq!(open().await.unwrap().node(), 1);
        assert_eq!(database.sql("SELECT count(*) FROM semel.node").unwrap(), "4");
    });
}

/// Waits for what happens in the background.
async fn until(so: impl Fn() -> bool) {
    for _ in 0..600 {
        if so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it did not happen within half a minute");
}

#[test]
fn who_prunes_makes_the_days_ahead_and_drops_those_that_are_empty() {
    let database = database();
    let clock = Arc::new(ManualClock::at(START));
    let days = || {
        let list = "SELECT string_agg(right(inhrelid::regclass::text, 2), ' ' ORDER BY 1) FROM pg_inherits
                    WHERE inhparent = 'semel.job'::regclass AND inhrelid::regclass::text !~ 'default'";
        database.sql(list).unwrap()
    };
    assert_eq!(days(), "15 16");
    runtime().block_on(async {
        let store = PostgresStore::open(database.url(), options(&clock)).await.unwrap();
        let prune = || async { store.apply(vec![Command::Prune { limit: 10 }]).await.unwrap() };
        let (name, config) = (QueueName::try_from("orders").unwrap(), Box::default());
        let job = Draft::new(name.clone(), Payload::from_json("1").unwrap()).check().unwrap();
        store.apply(vec![Command::PutQueue { name, config }, Command::Publish(job)]).await.unwrap();
        clock.advance(Millis::from_days(3));
        prune().await;
        // The first day has a job, the second never had one.
        until(|| days() == "15 18 19").await;
        clock.advance(Millis::from_days(1));
        prune().await;
        // Yesterday stays.
        until(|| days() == "15 18 19 20").await;
    });
}

#[test]
fn partitions_are_made_for_the_days_ahead_and_only_once() {
    let database = database();
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    let days =
        || database.sql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'semel.job'::regclass").unwrap();
    assert_eq!(days(), "3", "today, a day ahead, and the default");
    runtime().block_on(async {
        let store = PostgresStore::open(database.url(), options(&clock)).await.unwrap();
        assert_eq!(store.make_days().await.unwrap(), 0);
        clock.advance(semel_core::time::Millis::from_days(2));
        assert_eq!(store.make_days().await.unwrap(), 2);
    });
    assert_eq!(days(), "5");
}
