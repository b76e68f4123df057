//! The ledger from other languages, on one PostgreSQL with a worker in Rust: `docs/ledger/other-queues.md`.

use std::process::Command;

use semel_cluster::twin::Twin;
use semel_cluster::{Database, Shared, Template, sql_at};
use semel_ledger::postgres::{MIGRATIONS, SqlxPostgres};
use semel_ledger::{Call, Ledger, Verdict};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};

const PAGE: &str = include_str!("../../../../docs/ledger/other-queues.md");
const CHARGE: &str = "CREATE TABLE charge (id serial PRIMARY KEY, key text NOT NULL)";

/// A shop's database with a ledger in it.
fn database() -> Database<'static> {
    let content = format!("{}{CHARGE}", MIGRATIONS.concat());
    let template = Template { name: "languages", content: &content };
    let made = Shared::get().unwrap().database(&template, |url| sql_at(url, &[content.as_str()]).map(drop));
    made.unwrap()
}

/// A worker in Python: Debian's, because that is where `make need` put its driver.
fn python(database: &Database<'_>, key: &str, hold: &[&str]) -> Twin {
    let here = env!("CARGO_MANIFEST_DIR");
    let mut command = Command::new("/usr/bin/python3");
    command.env("PYTHONPATH", format!("{here}/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(format!("{here}/tests/it/worker.py")).args([database.url(), key]).args(hold);
    Twin::run(&mut command).unwrap()
}

/// What a worker in Python says of this key when nobody else is at it.
fn settled(database: &Database<'_>, key: &str) -> String {
    // A killed worker's transaction ends when the server has noticed.
    let words = std::iter::repeat_with(|| python(database, key, &[]).word().unwrap());
    words.take(100).find(|word| word != "busy").expect("a dead worker's transaction ends")
}

/// The same effect, by a worker in Rust.
async fn rust(pool: &PgPool, key: &str) -> Verdict<Value> {
    let ledger = Ledger::builder(SqlxPostgres::new(pool.clone()), "billing").build().unwrap();
    let charge = async |transaction: &mut sqlx::PgConnection| {
        let insert = "INSERT INTO charge (key) VALUES ($1) RETURNING id";
        let id: i32 = sqlx::query_scalar(insert).bind(key).fetch_one(transaction).await?;
        Ok::<_, sqlx::Error>(json!({ "charge": id }))
    };
    ledger.transact(pool, &Call::new(key).unwrap(), charge).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_in_python_and_rust_share_a_ledger() {
    let database = database();
    let pool = PgPool::connect(database.url()).await.unwrap();
    let first = python(&database, "order-1", &["hold"]);
    assert_eq!(first.word().unwrap(), "charged");
    assert_eq!(python(&database, "order-1", &[]).word().unwrap(), "busy");
    assert!(matches!(rust(&pool, "order-1").await, Verdict::InProgress { .. }));

    // Killed after the charge, and before the commit: nothing has happened. The number of its charge is spent.
    first.kill().unwrap();
    assert_eq!(settled(&database, "order-1"), "applied 2");
    assert_eq!(settled(&database, "order-1"), "replayed 2");
    assert_eq!(rust(&pool, "order-1").await, Verdict::Replayed(json!({ "charge": 2 })));

    assert_eq!(rust(&pool, "order-2").await, Verdict::Applied(json!({ "charge": 3 })));
    assert_eq!(settled(&database, "order-2"), "replayed 3");
    assert_eq!(database.sql("SELECT count(*) FROM charge").unwrap(), "2");
    pool.close().await;
}

#[test]
fn the_page_shows_the_file_that_is_run() {
    let file = include_str!("../../python/once.py");
    assert!(PAGE.contains(&format!("```python\n{file}```")), "the page and python/once.py differ");
}

/// From `start` up to and with `end`, each time it occurs, with PostgreSQL's own signs for parameters.
fn statements(start: &str, end: &str) -> Vec<String> {
    let cut = |rest: &str| rest.split_once(end).map(|(inside, _)| format!("{start}{inside}{end}"));
    let found: Vec<String> = PAGE.split(start).skip(1).filter_map(cut).collect();
    found
        .iter()
        .map(|sql| (1..=3).fold(sql.clone(), |sql, n| sql.replacen("%s", &format!("${n}"), 1)))
        .collect()
}

/// The glue around them is not run, but what it asks the database is.
#[tokio::test(flavor = "multi_thread")]
async fn every_statement_of_the_page_says_what_the_page_says_it_does() {
    let database = database();
    let pool = PgPool::connect(database.url()).await.unwrap();
    let (begins, records) =
        (statements("SELECT coalesce(", "AS entry"), statements("CALL semel_ledger.record(", ")"));
    assert_eq!((begins.len(), records.len()), (3, 3), "one each in Python, Ruby and TypeScript");
    for (n, (begin, record)) in begins.into_iter().zip(records).enumerate() {
        let key = format!("order-{n}");
        let mut transaction = pool.begin().await.unwrap();
        let begun = || {
            sqlx::query_as::<_, (String, Option<String>)>(AssertSqlSafe(begin.clone()))
                .bind("billing")
                .bind(&key)
        };
        assert_eq!(begun().fetch_one(&mut *transaction).await.unwrap(), ("new".to_owned(), None), "{begin}");
        assert_eq!(begun().fetch_one(&pool).await.unwrap(), ("busy".to_owned(), None), "{begin}");
        let recorded = sqlx::query(AssertSqlSafe(record)).bind("billing").bind(&key).bind("{}");
        recorded.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        let done = ("done".to_owned(), Some("{}".to_owned()));
        assert_eq!(begun().fetch_one(&pool).await.unwrap(), done, "{begin}");
    }
    pool.close().await;
}
