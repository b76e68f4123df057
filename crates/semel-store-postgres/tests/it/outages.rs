//! Connections that are cut: what was asked is asked again, and nothing is left half done.

use std::sync::Arc;
use std::time::Duration;

use semel_core::name::QueueName;
use semel_core::queue::QueueConfig;
use semel_store::{Command, ManualClock, Reply, Store, StoreError};
use semel_store_postgres::{Options, PostgresStore};

use crate::harness::{START, database, options, runtime};

/// Ends every connection that a store has made.
const CUT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name LIKE 'semel %'";

fn put_queue(name: &str) -> Command {
    let name = QueueName::try_from(name).unwrap();
    Command::PutQueue { name, config: Box::new(QueueConfig::default()) }
}

#[test]
fn a_store_whose_connections_are_cut_goes_on_over_new_ones() {
    let (database, clock) = (database(), Arc::new(ManualClock::at(START)));
    runtime().block_on(async {
        let store = PostgresStore::open(database.url(), options(&clock)).await.unwrap();
        for round in 0..5 {
            let answers = store.apply(vec![put_queue(&format!("q{round}"))]).await.unwrap();
            assert_eq!(answers, [Ok(Reply::Done)]);
            assert_ne!(database.sql(CUT).unwrap(), "0", "there was something to cut");
            assert_eq!(store.queues().await.unwrap().len(), round + 1);
            assert_ne!(database.sql(CUT).unwrap(), "0", "there was something to cut");
        }
    });
}

#[test]
fn a_database_that_is_gone_makes_the_store_busy_and_not_stuck() {
    let (database, clock) = (database(), Arc::new(ManualClock::at(START)));
    runtime().block_on(async {
        let options = Options { patience: Duration::from_millis(300), ..options(&clock) };
        let store = PostgresStore::open(database.url(), options).await.unwrap();
        drop(database);
        for outcome in [store.queues().await.map(drop), store.apply(vec![put_queue("q")]).await.map(drop)] {
            assert!(matches!(outcome, Err(StoreError::Busy { .. })), "{outcome:?}");
        }
    });
}
