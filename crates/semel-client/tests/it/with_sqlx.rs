use semel_client::sql::sqlx::{complete, publish};
use semel_client::sql::{Code, Completion, Draft, Effect, State};
use serde_json::json;
use sqlx::PgPool;

use crate::shop::{Shop, assert_is_full_draft, full_draft};

async fn connect(shop: &Shop) -> PgPool {
    PgPool::connect(shop.database.url()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_is_part_of_the_transaction() {
    let shop = Shop::open().await;
    let pool = connect(&shop).await;
    let mut transaction = pool.begin().await.unwrap();
    publish(&mut *transaction, &full_draft()).await.unwrap();
    transaction.rollback().await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    let first = publish(&mut *transaction, &full_draft()).await.unwrap();
    assert_eq!((first.state, first.deduplicated, first.duplicates), (State::Pending, false, 0));
    let second = publish(&mut *transaction, &full_draft()).await.unwrap();
    assert_eq!((&second.id, second.deduplicated, second.payload_matches), (&first.id, true, true));
    assert_eq!((second.duplicates, second.created_at), (1, first.created_at));
    assert_eq!(shop.lease().await, []);
    transaction.commit().await.unwrap();
    let deliveries = shop.lease().await;
    assert_eq!(deliveries.len(), 1);
    assert_is_full_draft(&deliveries[0]);
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_commits_with_the_effect() {
    let shop = Shop::open().await;
    let pool = connect(&shop).await;
    publish(&pool, &full_draft()).await.unwrap();
    let delivery = shop.lease().await.remove(0);
    let completion = Completion::new(delivery.id.to_string(), delivery.token.to_string())
        .result(&json!({ "charged": 100 }))
        .unwrap()
        .effect(Effect::Replayed);
    let mut transaction = pool.begin().await.unwrap();
    sqlx::query("INSERT INTO charges VALUES (17)").execute(&mut *transaction).await.unwrap();
    let completed = complete(&mut *transaction, &completion).await.unwrap();
    assert_eq!((completed.queue.as_str(), completed.repeated), ("orders", false));
    transaction.commit().await.unwrap();
    assert_eq!(shop.charges(), "1");
    assert!(complete(&pool, &completion).await.unwrap().repeated);
    let found = publish(&pool, &full_draft()).await.unwrap();
    assert_eq!(found.state, State::Completed);
    assert!(found.key_expires_at.unwrap() > found.created_at);
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_has_its_code() {
    let shop = Shop::open().await;
    let pool = connect(&shop).await;
    publish(&pool, &full_draft()).await.unwrap();
    let other = Draft::of_json("orders", r#"{"order": 18}"#).key("order-17");
    let collision = publish(&pool, &other).await.unwrap_err();
    let refusal = collision.refusal().unwrap();
    assert_eq!(
        (&refusal.code, refusal.pointers.as_slice()),
        (&Code::KeyCollision, &["/order".to_owned()][..])
    );
    let wrong = publish(&pool, &Draft::of_json("no queue", "{").priority(1000)).await.unwrap_err();
    let fields: Vec<_> = wrong.refusal().unwrap().violations.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(fields, ["queue", "payload", "priority"]);
    let delivery = shop.lease().await.remove(0);
    let stale = Completion::new(delivery.id.to_string(), "lse_0000000000001");
    assert_eq!(complete(&pool, &stale).await.unwrap_err().refusal().unwrap().code, Code::StaleLease);
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_race_is_worth_another_try() {
    let shop = Shop::open().await;
    let pool = connect(&shop).await;
    let mut transaction = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SELECT count(*) FROM charges").execute(&mut *transaction).await.unwrap();
    publish(&pool, &full_draft()).await.unwrap();
    let lost = publish(&mut *transaction, &full_draft()).await.unwrap_err();
    assert!(lost.refusal().is_none() && lost.retryable(), "{lost}");
    drop(transaction);
    pool.close().await;
}
