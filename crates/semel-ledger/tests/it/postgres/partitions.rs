//! PostgreSQL with its entries in partitions.

use std::sync::Arc;
use std::time::Duration;

use semel_ledger::postgres::PARTITIONS;
use semel_ledger::store::Store;
use semel_ledger::{Begin, Scope, suite};

use super::{On, client, database, tokio_store};
use crate::trouble::scope;

const HOUR: Duration = Duration::from_secs(3600);

/// Entries in partitions are the same entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_postgres_keeps_the_law() {
    let database = database();
    let store = tokio_store(database.url());
    let client = client(database.url()).await;
    let before = scope("before");
    assert_eq!(store.mark(std::slice::from_ref(&before), HOUR).await.unwrap(), [true]);
    client.batch_execute(PARTITIONS).await.unwrap();
    assert_eq!(store.mark(&[before], HOUR).await.unwrap(), [false], "what was there is there");
    suite::check(&On { store: Arc::new(store), client, by_day: true, _database: database }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_drops_the_days_that_are_over() {
    let database = database();
    let (store, client) = (tokio_store(database.url()), client(database.url()).await);
    client.batch_execute(PARTITIONS).await.unwrap();
    let scopes: Vec<Scope> = (0..50).map(|n| scope(&format!("event-{n}"))).collect();
    assert_eq!(store.mark(&scopes, HOUR * 24).await.unwrap(), [true; 50]);
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'semel_ledger.entry'::regclass";
    let count = async || client.query_one(partitions, &[]).await.unwrap().get::<_, i64>(0);
    // Six days and the default.
    assert_eq!((count().await, store.prune(10).await.unwrap()), (7, 0));
    let later = "CREATE OR REPLACE FUNCTION semel_ledger.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
                 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + 3 * 86400000'";
    client.batch_execute(later).await.unwrap();
    assert_eq!(store.prune(10).await.unwrap(), 50, "in one go, for they are dropped");
    assert_eq!((count().await, store.prune(10).await.unwrap()), (7, 0), "as many days ahead as before");
    assert_eq!(store.mark(&scopes[..1], HOUR).await.unwrap(), [true]);
}

#[tokio::test]
async fn a_partitioned_postgres_refuses_a_snapshot_that_cannot_see_others() {
    let database = database();
    let (ledger, mut client) = (tokio_store(database.url()), client(database.url()).await);
    client.batch_execute(PARTITIONS).await.unwrap();
    let ledger = semel_ledger::Ledger::builder(ledger, "billing").build().unwrap();
    let isolation = tokio_postgres::IsolationLevel::RepeatableRead;
    let transaction = client.build_transaction().isolation_level(isolation).start().await.unwrap();
    let call = semel_ledger::Call::new("order-1").unwrap();
    let Begin::New(entry) = ledger.begin::<u64>(&transaction, &call).await.unwrap() else {
        panic!("it is new")
    };
    let error = entry.record(&transaction, &1).await.unwrap_err();
    assert!(
        error.to_string().contains("needs READ COMMITTED, and this transaction is REPEATABLE READ"),
        "{error}"
    );
}
