//! PgBouncer between the ledger and the database, with another connection for every transaction.

use semel_cluster::{Bouncer, Cluster};
use semel_ledger::postgres::{MIGRATIONS, Transaction};
use semel_ledger::{Begin, Call, Ledger, Verdict};

use super::{client, tokio_store};
use crate::modes::transactional::TABLE;

async fn charge(transaction: &Transaction<'_>) -> Result<u64, tokio_postgres::Error> {
    // One message: a statement that is prepared by one client is found by another behind a pooler.
    transaction.batch_execute("INSERT INTO charge VALUES ('order-9482')").await.map(|()| 1)
}

#[tokio::test]
async fn a_transaction_through_a_pooler_happens_once_and_its_duplicate_is_told_at_once() {
    let cluster = Cluster::with(&[("fsync", "off")]).unwrap();
    cluster.sql("postgres", "CREATE DATABASE shop").unwrap();
    MIGRATIONS.iter().chain([&TABLE]).for_each(|sql| drop(cluster.sql("shop", sql).unwrap()));
    let bouncer = Bouncer::start(&cluster).unwrap();
    let url = bouncer.url("shop");
    let (mut first, mut second) = (client(&url).await, client(&url).await);
    let ledger = Ledger::builder(tokio_store(&url), "billing").cache_bytes(0).build().unwrap();
    let call = Call::new("order-9482").unwrap();

    let transaction = first.transaction().await.unwrap();
    let begun = ledger.begin::<u64>(&transaction, &call).await.unwrap();
    assert!(matches!(begun, Begin::New(_)));
    let duplicate = ledger.transact(&mut second, &call, charge).await.unwrap();
    assert!(matches!(duplicate, Verdict::InProgress { .. }), "{duplicate:?}");
    transaction.rollback().await.unwrap();

    assert_eq!(ledger.transact(&mut first, &call, charge).await.unwrap(), Verdict::Applied(1));
    assert_eq!(ledger.transact(&mut second, &call, charge).await.unwrap(), Verdict::Replayed(1));
    assert_eq!(cluster.sql("shop", "SELECT count(*) FROM charge").unwrap(), "1");
}
