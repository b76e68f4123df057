//! The schema: made once, whoever makes it, and whatever happens half way.

use semel_store::StoreError;
use semel_store_postgres::{MIGRATIONS, Options, PostgresStore, migrate, pending};

use crate::harness::{connect, empty_database, runtime};

/// Everything that a migration makes: tables, indexes, sequences, functions.
const INVENTORY: &str = "
    SELECT string_agg(name, ',' ORDER BY name) FROM (
        SELECT relkind::text || ' ' || relname::text AS name FROM pg_class WHERE relnamespace = 'semel'::regnamespace
        UNION ALL
        SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = 'semel'::regnamespace
    ) AS made";

#[test]
fn a_dry_run_names_what_is_missing_and_changes_nothing() {
    let database = empty_database();
    runtime().block_on(async {
        assert_eq!(pending(database.url()).await.unwrap(), MIGRATIONS);
        assert_eq!(database.sql("SELECT to_regnamespace('semel') IS NULL").unwrap(), "t");
        assert_eq!(migrate(database.url()).await.unwrap(), MIGRATIONS);
        assert_eq!(pending(database.url()).await.unwrap(), []);
    });
}

#[test]
fn migrating_twice_is_migrating_once() {
    let database = empty_database();
    runtime().block_on(async {
        migrate(database.url()).await.unwrap();
        let made = database.sql(INVENTORY).unwrap();
        assert_eq!(migrate(database.url()).await.unwrap(), []);
        assert_eq!(database.sql(INVENTORY).unwrap(), made);
    });
}

#[test]
fn of_many_nodes_that_migrate_at_once_one_makes_each_migration() {
    let database = empty_database();
    runtime().block_on(async {
        let all = futures_util::future::join_all((0..6).map(|_| migrate(database.url()))).await;
        let mut done: Vec<_> = all.into_iter().flat_map(Result::unwrap).map(|made| made.version).collect();
        done.sort_unstable();
        let every: Vec<_> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(done, every);
    });
}

#[test]
fn a_migration_that_fails_has_changed_nothing_and_says_so() {
    let database = empty_database();
    database.sql("CREATE SCHEMA semel; CREATE SEQUENCE semel.token").unwrap();
    runtime().block_on(async {
        let Err(StoreError::Open(why)) = migrate(database.url()).await else { panic!("it must fail") };
        assert!(why.contains("migration 1 (start) failed and has changed nothing"), "{why}");
        assert_eq!(database.sql(INVENTORY).unwrap(), "S token");
    });
}

#[test]
fn a_migration_that_is_killed_half_way_is_made_again_from_the_start() {
    let database = empty_database();
    database.sql("CREATE SCHEMA semel").unwrap();
    runtime().block_on(async {
        let mut other = connect(database.url()).await;
        // The migration has made half of its tables when it comes to this one, and waits for who is making it.
        let in_the_way = other.transaction().await.unwrap();
        in_the_way.batch_execute("CREATE TABLE semel.live ()").await.unwrap();
        let kill = async {
            let waiting = "application_name = 'semel migrate' AND wait_event_type = 'Lock'";
            let kill =
                format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {waiting}");
            until(|| database.sql(&kill).unwrap() == "1").await;
        };
        let (killed, ()) = futures_util::future::join(migrate(database.url()), kill).await;
        assert!(matches!(killed, Err(StoreError::Open(_))), "{killed:?}");
        in_the_way.rollback().await.unwrap();
        assert_eq!(database.sql(INVENTORY).unwrap(), "", "nothing is left of it");
        assert_eq!(migrate(database.url()).await.unwrap(), MIGRATIONS);
    });
}

/// Waits until something is so, and fails if it takes too long.
async fn until(mut so: impl FnMut() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !so() {
        assert!(std::time::Instant::now() < patience, "it did not come to that in time");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[test]
fn a_newer_schema_is_used_as_long_as_it_says_that_it_may_be() {
    let database = empty_database();
    runtime().block_on(async {
        migrate(database.url()).await.unwrap();
        let newest = MIGRATIONS.last().unwrap().version;
        let newer = |needs: i32| {
            format!(
                "DELETE FROM semel.migration WHERE version > {newest};
                 INSERT INTO semel.migration (version, name, needs) VALUES ({}, 'to come', {needs})",
                newest + 1
            )
        };
        database.sql(&newer(newest)).unwrap();
        let store =
            PostgresStore::open(database.url(), Options::default()).await.expect("an older node goes on");
        store.abandon();
        database.sql(&newer(newest + 1)).unwrap();
        let Err(StoreError::Open(why)) = PostgresStore::open(database.url(), Options::default()).await else {
            panic!("a program that is too old must not open it")
        };
        assert!(why.contains("start a newer semel"), "{why}");
    });
}
