//! Transactions on PostgreSQL that do not end as they began.

use std::time::Duration;

use semel_cluster::{Cluster, Proxy, Trap};
use semel_ledger::postgres::{SqlxPostgres, Transaction};
use semel_ledger::store::Store;
use semel_ledger::{Begin, Call, Error, Ledger, Steps, StoreErrorKind, Verdict};
use serde_json::json;
use sqlx::PgConnection;
use tokio_postgres::Client;

use super::{Tokio, client, database, pool, tokio_store};
use crate::modes::transactional::TABLE;

type Outcome = Result<Verdict<u64>, Error<tokio_postgres::Error>>;

fn ledger<S: Store>(store: S) -> Ledger<S> {
    Ledger::builder(store, "billing").cache_bytes(0).build().unwrap()
}

fn call() -> Call {
    Call::new("order-9482").unwrap()
}

async fn charge(transaction: &Transaction<'_>) -> Result<u64, tokio_postgres::Error> {
    transaction.execute("INSERT INTO charge VALUES ('order-9482')", &[]).await
}

async fn charged(ledger: &Ledger<Tokio>, client: &mut Client) -> Outcome {
    ledger.transact(client, &call(), charge).await
}

/// The same, once PostgreSQL has noticed that the connection of an earlier one is gone.
async fn ended(ledger: &Ledger<Tokio>, client: &mut Client) -> Verdict<u64> {
    for _ in 0..1000 {
        match charged(ledger, client).await.unwrap() {
            Verdict::InProgress { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
            verdict => return verdict,
        }
    }
    panic!("the transaction of a connection that is gone did not end")
}

/// Waits until PostgreSQL has ended the transactions of connections that were given up: until then they hold the key, and the next
/// one is told that somebody is at it.
async fn undisturbed(direct: &Client) {
    let open = "SELECT count(*) FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start IS NOT NULL";
    for _ in 0..1000 {
        if direct.query_one(open, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the transaction of a connection that is gone did not end")
}

async fn rows(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM charge", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_duplicate_does_not_wait_for_the_first() {
    let database = database();
    database.sql(TABLE).unwrap();
    let (mut first, mut second) = (client(database.url()).await, client(database.url()).await);
    let ledger = ledger(tokio_store(database.url()));
    let transaction = first.transaction().await.unwrap();
    let call = call();
    let Begin::New(entry) = ledger.begin::<u64>(&transaction, &call).await.unwrap() else {
        panic!("it is new")
    };
    let verdict = charged(&ledger, &mut second).await.unwrap();
    let Verdict::InProgress { until } = verdict else { panic!("{verdict:?}") };
    assert!(until.remaining <= Duration::from_secs(1));
    entry.record(&transaction, &5).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(charged(&ledger, &mut second).await.unwrap(), Verdict::Replayed(5));
    assert_eq!(rows(&second).await, 0);
}

#[tokio::test]
async fn an_effect_that_fails_or_is_dropped_is_rolled_back_and_the_connection_goes_on() {
    let database = database();
    database.sql(TABLE).unwrap();
    let mut client = client(database.url()).await;
    let ledger = ledger(tokio_store(database.url()));
    let failing = async |transaction: &Transaction<'_>| -> Result<u64, String> {
        charge(transaction).await.unwrap();
        Err("the customer is gone".to_owned())
    };
    let failed = ledger.transact(&mut client, &call(), failing).await;
    assert!(matches!(failed, Err(Error::Effect(error)) if error == "the customer is gone"));

    let stuck = async |transaction: &Transaction<'_>| -> Result<u64, String> {
        charge(transaction).await.unwrap();
        std::future::pending().await
    };
    let call = call();
    // The effect's statement has been answered when it waits; before that, dropping it is as good.
    let dropped =
        tokio::time::timeout(Duration::from_millis(50), ledger.transact(&mut client, &call, stuck)).await;
    assert!(dropped.is_err());
    assert_eq!(rows(&client).await, 0);
    assert_eq!(charged(&ledger, &mut client).await.unwrap(), Verdict::Applied(1));
    assert_eq!(rows(&client).await, 1);
}

/// The lock only saves the wait: if somebody records the key regardless, the primary key decides.
#[tokio::test]
async fn whoever_records_first_wins_and_the_other_is_rolled_back() {
    let database = database();
    database.sql(TABLE).unwrap();
    let mut client = client(database.url()).await;
    let record = "CALL semel_ledger.record('billing', 'order-9482', '', NULL, NULL, '41', 3600000)";
    let outrun = async |transaction: &Transaction<'_>| -> Result<u64, tokio_postgres::Error> {
        database.sql(record).unwrap();
        charge(transaction).await
    };
    let verdict = ledger(tokio_store(database.url())).transact(&mut client, &call(), outrun).await;
    assert_eq!(verdict.unwrap(), Verdict::Replayed(41));
    assert_eq!(rows(&client).await, 0);

    database.sql("DELETE FROM semel_ledger.entry").unwrap();
    let pool = pool(database.url()).await;
    let outrun = async |connection: &mut PgConnection| -> Result<u64, sqlx::Error> {
        database.sql(record).unwrap();
        let insert = sqlx::query("INSERT INTO charge VALUES ('order-9482')");
        insert.execute(connection).await.map(|done| done.rows_affected())
    };
    let verdict = ledger(SqlxPostgres::new(pool.clone())).transact(&pool, &call(), outrun).await;
    assert_eq!(verdict.unwrap(), Verdict::Replayed(41));
    assert_eq!(rows(&client).await, 0);
}

/// A constraint of the application that speaks at `COMMIT` is a unique violation too, but not of the ledger's key.
#[tokio::test]
async fn a_deferred_constraint_of_the_application_is_not_taken_for_a_faster_duplicate() {
    let database = database();
    database.sql(TABLE).unwrap();
    database.sql("ALTER TABLE charge ADD UNIQUE (job) DEFERRABLE INITIALLY DEFERRED").unwrap();
    database.sql("INSERT INTO charge VALUES ('order-9482')").unwrap();
    let mut client = client(database.url()).await;
    let refused = charged(&ledger(tokio_store(database.url())), &mut client).await.unwrap_err();
    assert!(matches!(&refused, Error::Store(error) if error.kind() == StoreErrorKind::Refused), "{refused}");
    assert!(refused.to_string().contains("charge_job_key"), "{refused}");
    // PostgreSQL tells an error before it has rolled back; what comes next on the same connection comes after that.
    assert_eq!(rows(&client).await, 1);

    let pool = pool(database.url()).await;
    let effect = async |connection: &mut PgConnection| -> Result<u64, sqlx::Error> {
        let insert = sqlx::query("INSERT INTO charge VALUES ('order-9482')");
        insert.execute(connection).await.map(|done| done.rows_affected())
    };
    let refused = ledger(SqlxPostgres::new(pool.clone())).transact(&pool, &call(), effect).await.unwrap_err();
    assert!(matches!(&refused, Error::Store(error) if error.kind() == StoreErrorKind::Refused), "{refused}");
    assert_eq!(database.sql("SELECT count(*) FROM semel_ledger.entry").unwrap(), "0");
    assert_eq!(rows(&client).await, 1);
}

#[tokio::test]
async fn collisions_expiry_and_other_modes_are_seen_in_transactions_too() {
    let database = database();
    database.sql(TABLE).unwrap();
    let mut client = client(database.url()).await;
    let ledger = ledger(tokio_store(database.url()));
    let with = |amount: u64| call().input(&json!({"amount": amount})).unwrap();
    assert!(ledger.transact(&mut client, &with(1), charge).await.unwrap().is_applied());
    let collision = ledger.transact(&mut client, &with(2), charge).await.unwrap_err();
    assert!(matches!(&collision, Error::Collision { fields } if fields == &["amount"]), "{collision}");
    // After its time it is forgotten, with its input.
    super::pass(&client, ledger.ttl()).await;
    assert!(ledger.transact(&mut client, &with(2), charge).await.unwrap().is_applied());
    assert_eq!(rows(&client).await, 2);

    let intended = Call::new("order-9483").unwrap();
    let fails = |_| async { Err::<u64, _>(semel_ledger::Failure::Unknown("timed out")) };
    assert!(ledger.intent(&intended).run(fails).await.is_err());
    let verdict = ledger.transact(&mut client, &intended, charge).await.unwrap();
    assert!(matches!(verdict, Verdict::OutcomeUnknown { .. }), "{verdict:?}");
}

#[tokio::test]
async fn whatever_a_text_contains_it_is_text() {
    let database = database();
    database.sql(TABLE).unwrap();
    let ledger = ledger(tokio_store(database.url()));
    let mut client = client(database.url()).await;
    let said = r#"'); DROP TABLE charge; -- \ \' \u0041 $$ "é" "#;
    let call = Call::new(said).unwrap().input(&json!({ "said": said })).unwrap();
    for applied in [true, false] {
        let effect = async |transaction: &Transaction<'_>| {
            charge(transaction).await?;
            Ok::<_, tokio_postgres::Error>(said.to_owned())
        };
        let verdict = ledger.transact(&mut client, &call, effect).await.unwrap();
        assert_eq!(verdict.is_applied(), applied);
        assert_eq!(verdict.result().as_deref(), Some(said));
    }
    assert_eq!(rows(&client).await, 1);
}

#[tokio::test]
async fn a_step_can_be_a_transaction() {
    let database = database();
    database.sql(TABLE).unwrap();
    let ledger = ledger(tokio_store(database.url()));
    let (call, url) = (call(), database.url());
    for expected in [Verdict::Applied(2), Verdict::Replayed(2)] {
        let job = |steps: Steps<Tokio, tokio_postgres::Error>| async move {
            let mut client = client(url).await;
            let inner = steps.ledger().clone();
            let rows = async |call: Call| inner.transact(&mut client, &call, charge).await;
            let first: u64 = steps.step("rows").with(rows).await?;
            let second: u64 = steps.step("call").run(|_| async { Ok(1) }).await?;
            Ok(first + second)
        };
        assert_eq!(ledger.steps(&call).run(job).await.unwrap(), expected);
    }
    assert_eq!(rows(&client(url).await).await, 1);
    let steps = "SELECT string_agg(step, ',' ORDER BY step) FROM semel_ledger.entry";
    assert_eq!(database.sql(steps).unwrap(), ",call,rows");
}

/// Whatever happens to the COMMIT, the caller is told that nobody knows, and the same key finds out.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_not_confirmed_is_found_out_with_the_same_key() {
    let cluster = Cluster::start().unwrap();
    let direct = client(&cluster.url("postgres")).await;
    let store = tokio_store(&cluster.url("postgres"));
    store.ensure_schema().await.unwrap();
    direct.batch_execute(TABLE).await.unwrap();
    let proxy = Proxy::to(cluster.address()).unwrap();
    let url = cluster.url_through(proxy.address(), "postgres");
    let through_sqlx = ledger(SqlxPostgres::new(pool(&url).await));
    let ledger = ledger(store);
    // Committed or not: one effect in the end.
    for (trap, applied) in [(Trap::commit_lost(), true), (Trap::commit_answer_lost(), false)] {
        undisturbed(&direct).await;
        direct.batch_execute("DELETE FROM semel_ledger.entry; DELETE FROM charge").await.unwrap();
        let mut client = client(&url).await;
        proxy.cut_when(trap);
        let unknown = charged(&ledger, &mut client).await;
        assert!(matches!(unknown, Err(Error::CommitUnknown(_))), "{unknown:?}");
        let mut client = super::client(&url).await;
        let verdict = ended(&ledger, &mut client).await;
        assert_eq!(verdict.is_applied(), applied, "{verdict:?}");
        assert_eq!(rows(&direct).await, 1);
    }
    undisturbed(&direct).await;
    direct.batch_execute("DELETE FROM semel_ledger.entry; DELETE FROM charge").await.unwrap();
    proxy.cut_when(Trap::commit_answer_lost());
    let effect = async |connection: &mut PgConnection| -> Result<u64, sqlx::Error> {
        let insert = sqlx::query("INSERT INTO charge VALUES ('order-9482')");
        insert.execute(connection).await.map(|done| done.rows_affected())
    };
    let pool = through_sqlx.store().pool().clone();
    let unknown = through_sqlx.transact(&pool, &call(), effect).await;
    assert!(matches!(unknown, Err(Error::CommitUnknown(_))), "{unknown:?}");
    assert_eq!(through_sqlx.transact(&pool, &call(), effect).await.unwrap(), Verdict::Replayed(1));
    assert_eq!(rows(&direct).await, 1);
}
