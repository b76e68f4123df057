//! Transactions that do not see what others commit while they run: they get the same answers, or start over.

use semel_core::queue::OnDead;
use semel_core::time::Millis;
use semel_store::Command;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::sql_app::{Shop, complete, publish, queue, state};

const LEVELS: [IsolationLevel; 2] = [IsolationLevel::RepeatableRead, IsolationLevel::Serializable];

/// A transaction that has taken its look at the world.
async fn begin(app: &mut Client, level: IsolationLevel) -> Transaction<'_> {
    let transaction = app.build_transaction().isolation_level(level).start().await.unwrap();
    transaction.query_one("SELECT count(*) FROM semel.queue", &[]).await.unwrap();
    transaction
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_and_completing_work_at_every_level() {
    let shop = Shop::open().await;
    for level in LEVELS {
        let delivery = shop.take("orders").await;
        let mut app = shop.app().await;
        let transaction = begin(&mut app, level).await;
        for deduplicated in [false, true] {
            let row =
                transaction.query_one("SELECT * FROM semel.publish('orders', '1', 'k')", &[]).await.unwrap();
            assert_eq!(row.get::<_, bool>("deduplicated"), deduplicated);
        }
        let (job, lease) = (delivery.id.to_string(), delivery.token.to_string());
        transaction.query_one("SELECT * FROM semel.complete($1::text, $2)", &[&job, &lease]).await.unwrap();
        transaction.commit().await.unwrap();
        let delivery = shop.lease("orders").await.remove(0);
        complete(&app, &delivery).await.unwrap();
        let release = Command::ReleaseKey {
            queue: queue("orders"),
            key: semel_core::key::Key::try_from("k").unwrap(),
            reason: "for the next".into(),
        };
        shop.tell(release).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_taken_since_starts_the_transaction_over() {
    let shop = Shop::open().await;
    for (level, key) in LEVELS.into_iter().zip(["a", "b"]) {
        let mut app = shop.app().await;
        let transaction = begin(&mut app, level).await;
        publish(&shop.app().await, "orders", "1", Some(key)).await.unwrap();
        let sql = format!("SELECT * FROM semel.publish('orders', '1', '{key}')");
        assert_eq!(state(&transaction.query_one(&sql, &[]).await.unwrap_err()), "40001");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_was_changed_or_deleted_since_starts_the_transaction_over() {
    let shop = Shop::open().await;
    shop.queue("gone", |_| {}).await;
    for level in LEVELS {
        let mut app = shop.app().await;
        let transaction = begin(&mut app, level).await;
        shop.queue("orders", |config| config.window = Millis::from_secs(1)).await;
        let refused =
            transaction.query_one("SELECT * FROM semel.publish('orders', '1')", &[]).await.unwrap_err();
        assert_eq!(state(&refused), "40001");
    }
    let mut app = shop.app().await;
    let transaction = begin(&mut app, IsolationLevel::RepeatableRead).await;
    shop.tell(Command::DeleteQueue(queue("gone"))).await;
    let refused = transaction.query_one("SELECT * FROM semel.publish('gone', '1')", &[]).await.unwrap_err();
    assert_eq!(state(&refused), "40001", "or the job would never be delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_lost_since_starts_the_transaction_over() {
    let shop = Shop::open().await;
    let delivery = shop.take("orders").await;
    let mut app = shop.app().await;
    let transaction = begin(&mut app, IsolationLevel::RepeatableRead).await;
    shop.tell(Command::Cancel(delivery.id)).await;
    let (job, lease) = (delivery.id.to_string(), delivery.token.to_string());
    let refused = transaction.query_one("SELECT * FROM semel.complete($1::text, $2)", &[&job, &lease]).await;
    assert_eq!(state(&refused.unwrap_err()), "40001");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_next_in_a_group_is_only_decided_by_those_who_see_the_others() {
    let shop = Shop::open().await;
    shop.queue("strict", |config| {
        config.group_concurrency = Some(1);
        config.on_dead = OnDead::Keep;
    })
    .await;
    let in_group = "SELECT * FROM semel.publish('strict', '1', \"group\" => 'g')";
    let app = shop.app().await;
    app.query_one(in_group, &[]).await.unwrap();
    let delivery = shop.lease("strict").await.remove(0);
    for level in LEVELS {
        let mut app = shop.app().await;
        let transaction = begin(&mut app, level).await;
        assert_eq!(state(&transaction.query_one(in_group, &[]).await.unwrap_err()), "SM011");
        transaction.rollback().await.unwrap();
        let transaction = begin(&mut app, level).await;
        let (job, lease) = (delivery.id.to_string(), delivery.token.to_string());
        let refused =
            transaction.query_one("SELECT * FROM semel.complete($1::text, $2)", &[&job, &lease]).await;
        assert_eq!(state(&refused.unwrap_err()), "SM011");
        transaction.rollback().await.unwrap();
        let transaction = begin(&mut app, level).await;
        transaction
            .query_one("SELECT * FROM semel.publish('strict', '1')", &[])
            .await
            .expect("it is in no group");
        transaction.rollback().await.unwrap();
    }
    complete(&app, &delivery).await.unwrap();
}
