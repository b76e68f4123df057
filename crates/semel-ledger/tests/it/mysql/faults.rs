//! What a MariaDB in trouble answers: an error, never "new".

use std::time::Duration;

use semel_cluster::Maria;
use semel_ledger::StoreErrorKind;
use semel_ledger::mysql::SqlxMySql;
use semel_ledger::store::{Claimed, Hold, Store};
use sqlx::mysql::MySqlPoolOptions;

use super::{OnMaria, pool};
use crate::trouble::{MINUTE, claim, granted, refuses, scope};

async fn on(maria: &Maria) -> SqlxMySql {
    let store = SqlxMySql::new(pool(&maria.url("test"), Duration::from_secs(1)).await);
    store.ensure_schema().await.unwrap();
    store
}

#[tokio::test]
async fn a_mariadb_that_is_killed_read_only_or_full_refuses_and_knows_everything_afterwards() {
    // The tables are in a file that hardly grows.
    let fixed = [("innodb-file-per-table", "0"), ("innodb-data-file-path", "ibdata1:12M:autoextend:max:16M")];
    let mut maria = Maria::with(&fixed).unwrap();
    let store = on(&maria).await;
    let holder = granted(&store, "one").await;

    maria.kill().unwrap();
    refuses(&store, &holder, StoreErrorKind::Unavailable).await;
    maria.restart().unwrap();
    assert!(matches!(store.claim(&claim("one")).await.unwrap(), Claimed::Busy { .. }));

    maria.sql("SET GLOBAL read_only = 1").unwrap();
    refuses(&store, &holder, StoreErrorKind::Refused).await;
    maria.sql("SET GLOBAL read_only = 0").unwrap();

    maria.sql("CREATE TABLE test.filler (text LONGTEXT)").unwrap();
    while maria.sql("INSERT INTO test.filler VALUES (repeat('x', 100000))").is_ok() {}
    let large = format!("{:?}", "x".repeat(100_000));
    let error = store.complete(&holder, &large, MINUTE).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    maria.set("innodb-data-file-path", "ibdata1:12M:autoextend");
    maria.restart().unwrap();
    assert_eq!(store.complete(&holder, "1", MINUTE).await.unwrap(), Hold::Held(()));
    assert!(matches!(store.claim(&claim("one")).await.unwrap(), Claimed::Done(_)));
}

#[tokio::test]
async fn without_tables_nothing_is_new() {
    let maria = OnMaria::start().await;
    maria.database.sql("DROP TABLE semel_ledger_entry").unwrap();
    let error = maria.store.claim(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Schema, "{error}");
    let error = maria.store.mark(&[scope("one")], MINUTE).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Schema, "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let maria = OnMaria::start().await;
    maria.database.sql("INSERT INTO semel_ledger_migration (version) VALUES (2)").unwrap();
    assert_eq!(maria.store.ensure_schema().await.unwrap_err().kind(), StoreErrorKind::Schema);
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_corrupt_and_not_new() {
    let maria = OnMaria::start().await;
    granted(&maria.store, "one").await;
    maria.database.sql("UPDATE semel_ledger_entry SET fingerprint = 'nonsense'").unwrap();
    let error = maria.store.claim(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
}

/// `SET timestamp` stops the clock of one session.
#[tokio::test]
async fn the_edge_of_a_lease_and_of_an_expiry_is_the_servers() {
    let maria = OnMaria::start().await;
    let one = MySqlPoolOptions::new().max_connections(1).connect(maria.database.url()).await.unwrap();
    let store = SqlxMySql::new(one);
    let stand_still = async |now: i64| {
        let stop = sqlx::query("SET timestamp = ? / 1000").bind(now);
        stop.execute(store.pool()).await.unwrap();
    };
    stand_still(1_000_000).await;
    let holder = granted(&store, "one").await;
    stand_still(1_059_999).await;
    let Claimed::Busy { until } = store.claim(&claim("one")).await.unwrap() else {
        panic!("a millisecond is left")
    };
    assert_eq!((until.at.as_millis(), until.remaining), (1_060_000, Duration::from_millis(1)));
    assert_eq!(store.complete(&holder, "1", MINUTE).await.unwrap(), Hold::Held(()));
    stand_still(1_119_998).await;
    assert!(matches!(store.claim(&claim("one")).await.unwrap(), Claimed::Done(_)));
    assert_eq!(store.prune(10).await.unwrap(), 0);
    stand_still(1_119_999).await;
    assert_eq!(store.lookup(&[scope("one")]).await.unwrap(), [None]);
    assert_eq!(store.prune(10).await.unwrap(), 1);

    let holder = granted(&store, "two").await;
    stand_still(1_179_999).await;
    assert!(matches!(store.claim(&claim("two")).await.unwrap(), Claimed::Granted(grant) if grant.recovering));
    assert_eq!(store.complete(&holder, "1", MINUTE).await.unwrap(), Hold::Lost);
}

#[tokio::test]
async fn pruning_takes_the_oldest_first_and_no_more_than_it_was_told() {
    let maria = OnMaria::start().await;
    let scopes: Vec<_> = (0..5).map(|n| scope(&format!("key-{n}"))).collect();
    maria.store.mark(&scopes, Duration::ZERO).await.unwrap();
    maria.store.mark(&[scope("fresh")], MINUTE).await.unwrap();
    let bites = [maria.store.prune(3).await.unwrap(), maria.store.prune(3).await.unwrap()];
    assert_eq!(bites, [3, 2]);
    assert_eq!(maria.store.prune(3).await.unwrap(), 0);
    assert!(maria.store.lookup(&[scope("fresh")]).await.unwrap()[0].is_some());
}
