//! A primary and its replica.

use semel_cluster::{Cluster, Replication};
use semel_store::{Store, StoreError};
use semel_store_postgres::{Options, PostgresStore};

use crate::harness::runtime;

#[test]
fn a_replica_is_refused_and_the_primary_is_found_among_several() {
    let primary = Cluster::with(&[("fsync", "off")]).unwrap();
    let replica = Cluster::replica(&primary, Replication::Async).unwrap();
    runtime().block_on(async {
        let alone = PostgresStore::open(&replica.url("postgres"), Options::default()).await;
        let Err(StoreError::Open(why)) = alone else { panic!("a replica must not be opened") };
        assert!(why.contains("is a replica and takes no writes"), "{why}");
        // postgres://user:password@one/database, with the other put in front.
        let (before, address) = (primary.url("postgres"), primary.address().to_string());
        let both = before.replace(&address, &format!("{},{address}", replica.address()));
        let store = PostgresStore::open(&both, Options::default()).await.expect("one of them is the primary");
        store.close().await.unwrap();
    });
}
