//! Publishing and completing belong to the application's transaction: they happen with it, or not at all.

use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::settle::{Report, Settle};
use semel_store::{Command, Store};
use tokio::time::timeout;

use crate::sql_app::{LONG, Shop, complete, publish, queue, state};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_delivered_before_the_commit_and_everything_after_it() {
    let shop = Shop::open().await;
    let mut app = shop.app().await;
    app.batch_execute("CREATE TABLE orders (id int PRIMARY KEY)").await.unwrap();
    let transaction = app.transaction().await.unwrap();
    transaction.execute("INSERT INTO orders VALUES (1)", &[]).await.unwrap();
    let row = transaction
        .query_one("SELECT * FROM semel.publish('orders', '{\"order\": 1}', 'order-1')", &[])
        .await;
    let id: String = row.unwrap().get("id");
    assert_eq!(shop.lease("orders").await, [], "it is not committed");
    assert_eq!(shop.store.job(id.parse().unwrap()).await.unwrap(), None);
    transaction.commit().await.unwrap();
    let deliveries = shop.lease("orders").await;
    assert_eq!(deliveries.iter().map(|delivery| delivery.id.to_string()).collect::<Vec<_>>(), [id]);
    assert_eq!(&deliveries[0].spec.payload.as_ref().unwrap().bytes()[..], br#"{"order": 1}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_leaves_nothing() {
    let shop = Shop::open().await;
    let mut app = shop.app().await;
    let transaction = app.transaction().await.unwrap();
    for key in ["'a'", "'a'", "'b'", "NULL"] {
        transaction
            .query_one(&format!("SELECT * FROM semel.publish('orders', '1', {key})"), &[])
            .await
            .unwrap();
    }
    transaction.rollback().await.unwrap();
    let left = "SELECT (SELECT count(*) FROM semel.job) + (SELECT count(*) FROM semel.live) + (SELECT count(*) FROM semel.key)
                     + (SELECT count(*) FROM semel.trace) + (SELECT count(*) FROM semel.tally)";
    assert_eq!(app.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    let (_, deduplicated) = publish(&app, "orders", "2", Some("a")).await.unwrap();
    assert!(!deduplicated, "the key is free");
    assert_eq!(shop.store.stats().await.unwrap().queues[0].pending, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_undoes_no_more_than_back_to_a_savepoint() {
    let shop = Shop::open().await;
    let mut app = shop.app().await;
    let mut transaction = app.transaction().await.unwrap();
    transaction.query_one("SELECT * FROM semel.publish('orders', '1', 'first')", &[]).await.unwrap();
    let savepoint = transaction.transaction().await.unwrap();
    let refused = savepoint.query_one("SELECT * FROM semel.publish('no-queue', '1')", &[]).await.unwrap_err();
    assert_eq!(state(&refused), "SM002");
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(shop.lease("orders").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_publish_a_key_at_once_the_second_waits_for_the_first() {
    for commits in [true, false] {
        let shop = Shop::open().await;
        let mut first = shop.app().await;
        let second = shop.app().await;
        let transaction = first.transaction().await.unwrap();
        let row =
            transaction.query_one("SELECT * FROM semel.publish('orders', '1', 'k')", &[]).await.unwrap();
        let id: String = row.get("id");
        let waiting = tokio::spawn(async move { publish(&second, "orders", "1", Some("k")).await });
        shop.somebody_waits().await;
        let ended = if commits { transaction.commit().await } else { transaction.rollback().await };
        ended.unwrap();
        let (answer, deduplicated) = timeout(LONG, waiting).await.unwrap().unwrap().unwrap();
        assert_eq!(
            (answer == id, deduplicated),
            (commits, commits),
            "if the first is undone the second is the first"
        );
        assert_eq!(shop.lease("orders").await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_waits_for_the_key_of_an_application_too() {
    let shop = Shop::open().await;
    let mut app = shop.app().await;
    let transaction = app.transaction().await.unwrap();
    let row = transaction.query_one("SELECT * FROM semel.publish('orders', '1', 'k')", &[]).await.unwrap();
    let id: String = row.get("id");
    let draft =
        Draft::new(queue("orders"), Payload::from_json("1").unwrap()).with_key(Key::try_from("k").unwrap());
    let (store, publish) = (shop.store.clone(), Command::Publish(draft.check().unwrap()));
    let node = tokio::spawn(async move { store.apply(vec![publish]).await });
    shop.somebody_waits().await;
    transaction.commit().await.unwrap();
    let answers = timeout(LONG, node).await.unwrap().unwrap().unwrap();
    let semel_store::Reply::Published(published) = answers[0].as_ref().unwrap() else {
        panic!("{answers:?}")
    };
    assert_eq!(
        (published.id.to_string(), published.deduplicated, published.payload_matches),
        (id, true, true)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_transaction_keeps_no_node_waiting() {
    let shop = Shop::open().await;
    shop.queue("limited", |config| config.concurrency = Some(5)).await;
    for name in ["orders", "limited"] {
        let held = shop.take(name).await;
        let mut app = shop.app().await;
        let transaction = app.transaction().await.unwrap();
        let sql = format!("SELECT * FROM semel.publish('{name}', '1', 'slow')");
        transaction.query_one(&sql, &[]).await.unwrap();
        // What a node does meanwhile must not wait; the store gives up after ten seconds.
        let paused = |paused| Command::Pause { queue: queue(name), paused };
        shop.tell(paused(true)).await;
        shop.tell(paused(false)).await;
        publish(&shop.app().await, name, "2", None).await.unwrap();
        assert_eq!(shop.lease(name).await.len(), 1);
        let busy = Outcome::Backpressure {
            retry_after: Some(semel_core::time::Millis::ZERO),
            scope: None,
            reason: None,
        };
        let settle = Settle::new(held.id, Some(held.token), busy, Report::default()).unwrap();
        shop.tell(Command::Settle(settle)).await;
        transaction.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_not_deleted_under_a_publish() {
    let shop = Shop::open().await;
    let mut app = shop.app().await;
    let transaction = app.transaction().await.unwrap();
    transaction.query_one("SELECT * FROM semel.publish('orders', '1')", &[]).await.unwrap();
    let store = shop.store.clone();
    let deletion =
        tokio::spawn(async move { store.apply(vec![Command::DeleteQueue(queue("orders"))]).await });
    shop.somebody_waits().await;
    transaction.commit().await.unwrap();
    let answers = timeout(LONG, deletion).await.unwrap().unwrap().unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().code(), "queue_not_empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_effect_and_the_ack_commit_together() {
    let shop = Shop::open().await;
    let delivery = shop.take("orders").await;
    let mut app = shop.app().await;
    app.batch_execute("CREATE TABLE effect (job text PRIMARY KEY)").await.unwrap();
    let (job, lease) = (delivery.id.to_string(), delivery.token.to_string());
    let sql =
        "SELECT * FROM semel.complete($1::text, $2, '{\"charged\":100}'::json, '{\"outcome\":\"applied\"}')";
    for commits in [false, true] {
        let transaction = app.transaction().await.unwrap();
        transaction.execute("INSERT INTO effect VALUES ($1)", &[&job]).await.unwrap();
        let row = transaction.query_one(sql, &[&job, &lease]).await.unwrap();
        assert_eq!((row.get("state"), row.get("repeated"), row.get("queue")), ("completed", false, "orders"));
        let ended = if commits { transaction.commit().await } else { transaction.rollback().await };
        ended.unwrap();
        let found = shop.store.job(delivery.id).await.unwrap().unwrap();
        let expected = if commits { State::Completed } else { State::Processing };
        assert_eq!(found.progress.state, expected);
    }
    let again = app.query_one(sql, &[&job, &lease]).await.unwrap();
    assert!(again.get::<_, bool>("repeated"));
    let found = shop.store.job(delivery.id).await.unwrap().unwrap();
    assert_eq!(&found.progress.result.unwrap().bytes()[..], br#"{"charged":100}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_lease_commits_no_effect() {
    let shop = Shop::open().await;
    let delivery = shop.take("orders").await;
    shop.tell(Command::Cancel(delivery.id)).await;
    let mut app = shop.app().await;
    app.batch_execute("CREATE TABLE effect (job text PRIMARY KEY)").await.unwrap();
    let transaction = app.transaction().await.unwrap();
    transaction.execute("INSERT INTO effect VALUES ('1')", &[]).await.unwrap();
    let (job, lease) = (delivery.id.to_string(), delivery.token.to_string());
    let refused = transaction.query_one("SELECT * FROM semel.complete($1::text, $2)", &[&job, &lease]).await;
    assert_eq!(state(&refused.unwrap_err()), "SM008");
    // Whoever overlooks the error cannot commit all the same.
    transaction.commit().await.ok();
    assert_eq!(app.query_one("SELECT count(*) FROM effect", &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_complete_and_a_cancellation_one_takes_effect() {
    let shop = Shop::open().await;
    let delivery = shop.take("orders").await;
    let mut app = shop.app().await;
    let transaction = app.transaction().await.unwrap();
    let (job, lease) = (delivery.id.to_string(), delivery.token.to_string());
    transaction.query_one("SELECT * FROM semel.complete($1::text, $2)", &[&job, &lease]).await.unwrap();
    let store = shop.store.clone();
    let cancel = tokio::spawn(async move { store.apply(vec![Command::Cancel(delivery.id)]).await });
    shop.somebody_waits().await;
    transaction.commit().await.unwrap();
    let answers = timeout(LONG, cancel).await.unwrap().unwrap().unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().code(), "wrong_state");
    assert!(complete(&shop.app().await, &delivery).await.unwrap().get::<_, bool>("repeated"));
}
