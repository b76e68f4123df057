//! What applications see of the functions: ids, refusals, rights, settings and notifications.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use semel_core::ids::JobId;
use semel_store::Store;
use serde_json::json;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::sql_app::{LONG, Shop, publish, state};
use crate::sql_refusal::details;

/// Publishes many jobs, one transaction each. Every third is undone, and its id is gone with it.
async fn publish_many(app: Client) -> Vec<JobId> {
    let mut ids = Vec::new();
    for n in 0..150 {
        app.batch_execute("BEGIN").await.unwrap();
        let (id, _) = publish(&app, "orders", "1", None).await.unwrap();
        app.batch_execute(if n % 3 == 0 { "ROLLBACK" } else { "COMMIT" }).await.unwrap();
        ids.push(id.parse().unwrap());
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_never_made_twice_and_increase_for_each_session() {
    let shop = Shop::open().await;
    let apps = join_all((0..4).map(|_| shop.app())).await;
    let all = join_all(apps.into_iter().map(publish_many)).await;
    assert!(all.iter().all(|ids| ids.is_sorted_by(|a, b| a < b)), "a session's jobs are in its order");
    let distinct: BTreeSet<_> = all.iter().flatten().collect();
    assert_eq!(distinct.len(), 600);
    assert!(distinct.iter().all(|id| (id.raw() >> 12) & 1023 == 1023), "no node makes such ids");
    let jobs = shop.store.stats().await.unwrap().queues[0].pending;
    assert_eq!(jobs, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ids_in_one_statement_are_in_its_order() {
    let shop = Shop::open().await;
    let app = shop.app().await;
    let sql = "SELECT p.id FROM generate_series(1, 300) AS n, LATERAL semel.publish('orders', n::text) AS p ORDER BY n";
    let ids: Vec<String> = app.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_above_the_last_one_of_its_key() {
    let shop = Shop::open().await;
    let app = shop.app().await;
    let (first, _) = publish(&app, "orders", "1", Some("k")).await.unwrap();
    // As if a node that runs ahead of the clock had made it, in a lane below or above.
    for lane in [0, 1023] {
        let ahead = JobId::first_at(shop.store.now()).raw() + (60_000 << 22) + (lane << 12) + 7;
        let ahead = i64::try_from(ahead).unwrap();
        let next = app.query_one("SELECT semel.next_id(semel.clock_millis(), $1)", &[&ahead]).await.unwrap();
        assert!(next.get::<_, i64>(0) > ahead);
    }
    let (second, _) = publish(&app, "orders", "1", None).await.unwrap();
    assert!(second > first);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_wrong_with_a_publish_is_named_at_once() {
    let shop = Shop::open().await;
    let app = shop.app().await;
    let wrong = app
        .query_one(
            "SELECT * FROM semel.publish(
                 'größe', '{\"a\":', E'a\\tb', '-1 s', '1969-12-31Z', 101, '',
                 '{\"a\":1,\"b\":\"2\",\"b\":\"3\",\"\":\"x\"}',
                 '{\"maxAttempts\":101,\"retry\":{\"base\":90000,\"factor\":0.5,\"cap\":1,\"jitter\":\"x\"},\"window\":-1,\"timeout\":\"5\"}',
                 repeat('x', 256))",
            &[],
        )
        .await
        .unwrap_err();
    assert_eq!(state(&wrong), "SM001");
    let details = details(&wrong);
    let fields: Vec<_> =
        details["violations"].as_array().unwrap().iter().map(|v| v["field"].as_str().unwrap()).collect();
    let expected = [
        "queue",
        "payload",
        "idempotencyKey",
        "delay",
        "delay",
        "runAt",
        "priority",
        "group",
        "publisher",
        "maxAttempts",
        "retry.jitter",
        "retry.base",
        "retry.factor",
        "retry.cap",
        "timeout",
        "window",
        "metadata",
        "metadata",
        "metadata",
    ];
    assert_eq!(fields, expected, "{details}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_understood_is_named_and_not_guessed() {
    let shop = Shop::open().await;
    shop.queue("odd", |config| config.key_pattern = Some("(?i)order-[0-9]+".into())).await;
    let app = shop.app().await;
    let cases = [
        ("semel.publish('orders', NULL::text)", "SM001", "payload"),
        ("semel.publish(NULL, '1')", "SM001", "queue"),
        ("semel.publish('orders', '1', options => '{\"retries\":1}')", "SM001", "retries"),
        ("semel.publish('orders', '1', options => '[]')", "SM001", "options"),
        ("semel.publish('orders', '1', options => '{\"retry\":{\"colour\":1}}')", "SM001", "retry.colour"),
        ("semel.publish('orders', '1', metadata => '[\"a\"]')", "SM001", "metadata"),
        ("semel.publish('orders', '1', metadata => '{\"a\":\"\\u0000\"}')", "SM001", "metadata"),
        ("semel.publish('orders', '1', delay => '366 days')", "SM001", "delay"),
        ("semel.publish('orders', '1', run_at => now() + interval '366 days')", "SM001", "runAt"),
        ("semel.publish('odd', '1', 'order-1')", "SM010", ""),
        ("semel.publish('orders', to_json(repeat('1', 262143)))", "SM005", ""),
        ("semel.publish('orders', repeat('[', 20000000))", "SM005", ""),
        ("semel.complete('job_1', 'lse_0000000000001')", "SM001", "id"),
        ("semel.complete('job_0000000000001', 'x')", "SM001", "lease"),
        ("semel.complete('job_0000000000001', NULL)", "SM001", "lease"),
        ("semel.complete('job_0000000000001', 'lse_0000000000001', 'yes')", "SM001", "result"),
        (
            "semel.complete('job_0000000000001', 'lse_0000000000001', to_json(repeat('x', 65536)))",
            "SM001",
            "result",
        ),
        (
            "semel.complete('job_0000000000001', 'lse_0000000000001', NULL, '{\"outcome\":\"maybe\"}')",
            "SM001",
            "effect.outcome",
        ),
        ("semel.complete(1, 'lse_0000000000001')", "SM007", ""),
    ];
    for (call, code, field) in cases {
        let error = app.query_one(&format!("SELECT * FROM {call}"), &[]).await.unwrap_err();
        assert_eq!(state(&error), code, "{call}: {error:?}");
        let named = &details(&error)["violations"][0]["field"];
        assert!(field.is_empty() || *named == json!(field), "{call}: {named}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_of_a_session_change_nothing() {
    let shop = Shop::open().await;
    let app = shop.app().await;
    app.batch_execute(
        "CREATE SCHEMA mine;
         CREATE FUNCTION mine.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$;
         CREATE FUNCTION mine.strpos(text, text) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;
         SET search_path = mine, pg_catalog;
         SET standard_conforming_strings = off;
         SET escape_string_warning = off;
         SET DateStyle = 'German';
         SET IntervalStyle = 'iso_8601';
         SET TimeZone = 'Pacific/Kiritimati';
         SET bytea_output = 'escape'",
    )
    .await
    .unwrap();
    let (first, _) = publish(&app, "orders", r#"{"a":"\u00e9\u0000"}"#, Some("k")).await.unwrap();
    let (again, deduplicated) = publish(&app, "orders", "{\"a\":\"é\\u0000\"}", Some("k")).await.unwrap();
    assert_eq!((first, true), (again, deduplicated));
    let delivery = shop.lease("orders").await.remove(0);
    crate::sql_app::complete(&app, &delivery).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_needs_no_right_but_to_call() {
    let shop = Shop::open().await;
    let owner = shop.app().await;
    let role = format!("app_{}", shop.database.name());
    owner
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN;
             GRANT USAGE ON SCHEMA semel TO {role}"
        ))
        .await
        .unwrap();
    let app = shop.app().await;
    app.batch_execute(&format!("SET ROLE {role}")).await.unwrap();
    let delivery = shop.take("orders").await;
    let denied = publish(&app, "orders", "1", None).await.unwrap_err();
    assert_eq!(state(&denied), "42501", "to see the schema is not to publish");
    for grant in GRANTS.lines() {
        owner.batch_execute(&grant.replace("TO app", &format!("TO {role}"))).await.unwrap();
    }
    publish(&app, "orders", "1", Some("k")).await.unwrap();
    app.query_one("SELECT * FROM semel.publish('orders', '{}'::jsonb, 'k')", &[]).await.unwrap();
    crate::sql_app::complete(&app, &delivery).await.unwrap();
    let (number, lease) = (i64::try_from(delivery.id.raw()).unwrap(), delivery.token.to_string());
    app.query_one("SELECT * FROM semel.complete($1::bigint, $2)", &[&number, &lease]).await.unwrap();
    for forbidden in
        ["SELECT payload FROM semel.job", "SELECT secrets FROM semel.queue", "SELECT semel.next_id(0, 0)"]
    {
        assert_eq!(state(&app.query(forbidden, &[]).await.unwrap_err()), "42501", "{forbidden}");
    }
    owner.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// The rights of an application, as the documentation has them.
const GRANTS: &str = "\
GRANT USAGE ON SCHEMA semel TO app;
GRANT EXECUTE ON FUNCTION semel.publish(text, text, text, interval, timestamptz, integer, text, json, json, text) TO app;
GRANT EXECUTE ON FUNCTION semel.publish(text, json, text, interval, timestamptz, integer, text, json, json, text) TO app;
GRANT EXECUTE ON FUNCTION semel.publish(text, jsonb, text, interval, timestamptz, integer, text, json, json, text) TO app;
GRANT EXECUTE ON FUNCTION semel.complete(text, text, text, json) TO app;
GRANT EXECUTE ON FUNCTION semel.complete(text, text, json, json) TO app;
GRANT EXECUTE ON FUNCTION semel.complete(text, text, jsonb, json) TO app;
GRANT EXECUTE ON FUNCTION semel.complete(bigint, text, text, json) TO app;";

/// The page about these functions.
const PAGE: &str = include_str!("../../../../docs/operations/postgres-sql.md");

#[test]
fn the_documentation_names_these_rights() {
    for grant in GRANTS.lines() {
        assert!(PAGE.contains(grant), "{grant}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_documentation_run() {
    let shop = Shop::open().await;
    let app = shop.app().await;
    let examples = PAGE.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut run = 0;
    // The rights have a test of their own, because roles are the whole cluster's.
    for example in examples.filter(|example| !example.contains("GRANT")) {
        let mut example = example.to_owned();
        if example.contains(":'job'") {
            let delivery = shop.lease("orders").await.remove(0);
            example = example.replace(":'job'", &format!("'{}'", delivery.id));
            example = example.replace(":'lease'", &format!("'{}'", delivery.token));
        }
        app.batch_execute(&example).await.unwrap_or_else(|error| panic!("{example}\n{error:?}"));
        run += 1;
    }
    assert_eq!(run, 3, "publish, complete, and the setting");
    let stats = shop.store.stats().await.unwrap().queues.remove(0);
    assert_eq!((stats.pending + stats.processing, stats.completed), (1, 1));
}

/// What is told on the channel `semel`, as it comes.
async fn listen(shop: &Shop) -> (Client, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(shop.database.url(), NoTls).await.unwrap();
    let (send, told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(note) = message {
                send.send(note.payload().to_owned()).ok();
            }
        }
    });
    client.batch_execute("LISTEN semel").await.unwrap();
    (client, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_told_at_the_commit_unless_the_application_says_otherwise() {
    let shop = Shop::open().await;
    let (_listener, mut told) = listen(&shop).await;
    let mut app = shop.app().await;
    let transaction = app.transaction().await.unwrap();
    transaction.query_one("SELECT * FROM semel.publish('orders', '1')", &[]).await.unwrap();
    transaction.query_one("SELECT * FROM semel.publish('orders', '2')", &[]).await.unwrap();
    let other = shop.app().await;
    other.batch_execute("NOTIFY semel, 'before the commit'").await.unwrap();
    transaction.commit().await.unwrap();
    let transaction = app.transaction().await.unwrap();
    transaction.batch_execute("SET LOCAL semel.notify = off").await.unwrap();
    transaction.query_one("SELECT * FROM semel.publish('orders', '3')", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    other.batch_execute("NOTIFY semel, 'the end'").await.unwrap();
    for expected in ["before the commit", r#"{"ready" : {"orders" : 1}}"#, "the end"] {
        assert_eq!(timeout(LONG, told.recv()).await.unwrap().unwrap(), expected);
    }
}
