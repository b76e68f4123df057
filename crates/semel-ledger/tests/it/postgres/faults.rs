//! What a PostgreSQL in trouble answers: an error, never "new".

use std::sync::Arc;
use std::time::Duration;

use semel_cluster::Cluster;
use semel_ledger::StoreErrorKind;
use semel_ledger::postgres::SqlxPostgres;
use semel_ledger::store::{Claimed, Hold, Store};

use super::{client, empty_database, pool, tokio_store};
use crate::trouble::{MINUTE, claim, granted, refuses, scope};

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_is_down_or_read_only_refuses_and_knows_everything_afterwards() {
    let mut cluster = Cluster::start().unwrap();
    let url = cluster.url("postgres");
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(tokio_store(&url)), Arc::new(SqlxPostgres::new(pool(&url).await))];
    stores[0].ensure_schema().await.unwrap();
    let holders = [granted(&*stores[0], "one").await, granted(&*stores[1], "two").await];

    cluster.kill().unwrap();
    for (store, holder) in stores.iter().zip(&holders) {
        refuses(&**store, holder, StoreErrorKind::Unavailable).await;
    }
    cluster.restart().unwrap();
    let admin = client(&url).await;
    admin.batch_execute("ALTER SYSTEM SET default_transaction_read_only = on").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let read_only = "SELECT current_setting('default_transaction_read_only')";
    for (store, holder) in stores.iter().zip(&holders) {
        // Sessions hear of a new setting between two statements, not at once.
        while client(&url).await.query_one(read_only, &[]).await.unwrap().get::<_, String>(0) != "on" {}
        while store.claim(&claim("probe")).await.is_ok() {}
        refuses(&**store, holder, StoreErrorKind::Refused).await;
    }
    admin.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    admin.batch_execute("ALTER SYSTEM RESET default_transaction_read_only").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    for (store, holder) in stores.iter().zip(&holders) {
        let mut completed = store.complete(holder, "1", MINUTE).await;
        while completed.is_err() {
            completed = store.complete(holder, "1", MINUTE).await;
        }
        assert_eq!(completed.unwrap(), Hold::Held(()));
        assert!(matches!(store.claim(&claim(holder.scope.key.as_str())).await.unwrap(), Claimed::Done(_)));
    }
}

#[tokio::test]
async fn a_database_without_a_ledger_says_what_to_do() {
    let database = empty_database();
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(tokio_store(database.url())), Arc::new(SqlxPostgres::new(pool(database.url()).await))];
    for store in stores {
        let error = store.claim(&claim("one")).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Schema, "{error}");
        assert!(error.to_string().contains("run ensure_schema or the migrations in ledger/"), "{error}");
    }
}

#[tokio::test]
async fn a_role_that_may_not_write_is_refused() {
    let database = super::database();
    database.sql("CREATE ROLE reader; GRANT USAGE ON SCHEMA semel_ledger TO reader").ok();
    let session = format!("{}&options=-crole%3Dreader", database.url());
    let session = if database.url().contains('?') { session } else { session.replacen('&', "?", 1) };
    let error = tokio_store(&session).claim(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
}

/// No entry is ever read with a worker's clock: what the functions go by is the server's, to the millisecond.
#[tokio::test]
async fn the_edge_of_a_lease_and_of_an_expiry_is_the_servers() {
    let database = super::database();
    let stand_still = |now: i64| {
        let clock = format!(
            "CREATE OR REPLACE FUNCTION semel_ledger.clock() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT {now}::bigint'"
        );
        database.sql(&clock).unwrap();
    };
    let store = tokio_store(database.url());
    stand_still(1_000_000);
    let holder = granted(&store, "one").await;
    stand_still(1_059_999);
    let Claimed::Busy { until } = store.claim(&claim("one")).await.unwrap() else {
        panic!("a millisecond is left")
    };
    assert_eq!((until.at.as_millis(), until.remaining), (1_060_000, Duration::from_millis(1)));
    assert_eq!(store.complete(&holder, "1", MINUTE).await.unwrap(), Hold::Held(()));
    stand_still(1_119_998);
    assert!(matches!(store.claim(&claim("one")).await.unwrap(), Claimed::Done(_)));
    assert_eq!(store.prune(10).await.unwrap(), 0);
    stand_still(1_119_999);
    assert_eq!(store.lookup(&[scope("one")]).await.unwrap(), [None]);
    assert_eq!(store.prune(10).await.unwrap(), 1);

    let holder = granted(&store, "two").await;
    stand_still(1_179_999);
    assert!(matches!(store.claim(&claim("two")).await.unwrap(), Claimed::Granted(grant) if grant.recovering));
    assert_eq!(store.complete(&holder, "1", MINUTE).await.unwrap(), Hold::Lost);
}
