//! Databases for the tests inside this crate.

use semel_cluster::{Database, Shared, Template};
use semel_store::StoreError;
use tokio::runtime::Runtime;

use crate::migrate::{MIGRATIONS, migrate};
use crate::options::Options;
use crate::session::{Link, Sql};
use crate::store::PostgresStore;

/// A runtime with everything in it.
pub(crate) fn runtime() -> Runtime {
    Runtime::new().expect("a runtime starts")
}

/// A database with the schema and nothing in it.
pub(crate) fn database() -> Database<'static> {
    let content: String = MIGRATIONS.iter().map(|migration| migration.sql).collect();
    let template = Template { name: "schema", content: &content };
    let fill = |url: &str| runtime().block_on(migrate(url)).map(drop);
    let cluster = Shared::get().expect("a PostgreSQL cluster starts");
    cluster.database::<StoreError>(&template, fill).expect("a database is made")
}

/// Asserts that each statement, planned while `semel.live` is known to be empty, goes to the places of the rows it changes and
/// never reads an index from end to end.
pub(crate) fn assert_places_are_found(statements: &[&Sql]) {
    let database = database();
    runtime().block_on(async {
        let store = PostgresStore::open(database.url(), Options::default()).await.expect("the store opens");
        let session = store.pool.session().await.expect("there is a connection");
        session.script("VACUUM ANALYZE semel.live").await.expect("it is empty");
        for sql in statements {
            let plan = kept_plan(&session, sql).await;
            let lines: Vec<_> = plan.lines().collect();
            // With nothing but an id the primary key alone leads to a row; any other index is read from end to end, too.
            let by_id =
                |pair: &[&str]| pair[1].contains("Index Cond: (id =") && !pair[0].contains("live_pkey");
            let reads_all = |pair: &[&str]| {
                let is_looked_up = pair[1].contains("Index Cond") && !by_id(pair);
                pair[0].contains(" using ") && pair[0].contains(" on live") && !is_looked_up
            };
            let goes_there = plan.contains("Tid Scan on live") && !lines.windows(2).any(reads_all);
            assert!(goes_there, "{}\n{plan}", sql.text);
        }
        drop(session);
        store.abandon();
    });
}

/// How many pages a statement looks at, all of them in memory. It is done, not only planned.
pub(crate) async fn pages(link: &Link, statement: &str) -> u64 {
    let explained = link.query_text(&format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {statement}"), &[]).await;
    let lines: Vec<String> =
        explained.expect("the statement is explained").iter().map(|row| row.get(0)).collect();
    let hit = lines.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared hit="));
    let hit = hit.unwrap_or_else(|| panic!("{lines:#?}")).split(' ').next();
    hit.and_then(|pages| pages.parse().ok()).unwrap_or_else(|| panic!("{lines:#?}"))
}

/// The plan that a connection makes of a statement once and keeps.
async fn kept_plan(link: &Link, sql: &Sql) -> String {
    let types: Vec<_> = sql.types.iter().map(tokio_postgres::types::Type::name).collect();
    let nothing = vec!["NULL"; types.len()].join(", ");
    let text = format!("DEALLOCATE ALL; PREPARE kept ({}) AS {}", types.join(", "), sql.text);
    link.script(&text).await.expect("the statement is prepared");
    let rows = link.query_text(&format!("EXPLAIN EXECUTE kept ({nothing})"), &[]).await;
    let lines = rows.expect("the statement is planned");
    lines.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}
