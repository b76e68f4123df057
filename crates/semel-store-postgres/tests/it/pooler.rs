//! PgBouncer between the store and the database, with another connection for every transaction.

use std::sync::atomic::{AtomicU32, Ordering};

use semel_cluster::{Bouncer, Cluster};
use semel_store::StoreError;
use semel_store::model::Histories;
use semel_store_postgres::{Options, PostgresStore, migrate};

use crate::harness::{Postgres, runtime};

/// Histories that are run through the pooler: what it can break is broken in every one.
const CASES: u32 = 4;

#[test]
fn it_behaves_as_the_memory_store_does_through_a_pooler() {
    let cluster = Cluster::with(&[("fsync", "off")]).unwrap();
    cluster.sql("postgres", "CREATE DATABASE migrated").unwrap();
    let bouncer = Bouncer::start(&cluster).unwrap();
    runtime().block_on(migrate(&cluster.url("migrated"))).unwrap();
    assert_says_what_to_do(&bouncer.url("postgres"));
    let (made, histories) = (AtomicU32::new(0), Histories { cases: CASES, ..Histories::from_env() });
    histories.check(|| {
        let name = format!("case_{}", made.fetch_add(1, Ordering::SeqCst));
        cluster.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE migrated")).unwrap();
        Postgres::at(&bouncer.url(&name), |options| options.prepare = false)
    });
}

/// Whoever does not know of the pooler is told what to change.
fn assert_says_what_to_do(url: &str) {
    let opened = runtime().block_on(PostgresStore::open(url, Options::default()));
    let Err(StoreError::Open(why)) = opened else { panic!("prepared statements must not be promised") };
    assert!(why.contains("prepare = false"), "{why}");
}
