use semel_client::sql::tokio_postgres::{complete, publish};
use semel_client::sql::{Code, Completion, Draft, Effect, State};
use serde_json::json;
use tokio_postgres::{Client, IsolationLevel, NoTls};

use crate::shop::{Shop, assert_is_full_draft, full_draft};

async fn connect(shop: &Shop) -> Client {
    let (client, connection) = tokio_postgres::connect(shop.database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_is_part_of_the_transaction() {
    let shop = Shop::open().await;
    let mut client = connect(&shop).await;
    let transaction = client.transaction().await.unwrap();
    publish(&transaction, &full_draft()).await.unwrap();
    transaction.rollback().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let first = publish(&transaction, &full_draft()).await.unwrap();
    assert_eq!((first.state, first.deduplicated, first.duplicates), (State::Pending, false, 0));
    let second = publish(&transaction, &full_draft()).await.unwrap();
    assert_eq!((&second.id, second.deduplicated, second.payload_matches), (&first.id, true, true));
    assert_eq!((second.duplicates, second.created_at), (1, first.created_at));
    assert_eq!(shop.lease().await, []);
    transaction.commit().await.unwrap();
    let deliveries = shop.lease().await;
    assert_eq!(deliveries.len(), 1);
    assert_is_full_draft(&deliveries[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_commits_with_the_effect() {
    let shop = Shop::open().await;
    let mut client = connect(&shop).await;
    publish(&client, &full_draft()).await.unwrap();
    let delivery = shop.lease().await.remove(0);
    let completion = Completion::new(delivery.id.to_string(), delivery.token.to_string())
        .result(&json!({ "charged": 100 }))
        .unwrap()
        .effect_under(Effect::Applied, "charge-17");
    let transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO charges VALUES (17)", &[]).await.unwrap();
    let completed = complete(&transaction, &completion).await.unwrap();
    assert_eq!((completed.queue.as_str(), completed.repeated), ("orders", false));
    assert!(completed.took.is_some());
    transaction.commit().await.unwrap();
    assert_eq!(shop.charges(), "1");
    let again = complete(&client, &completion).await.unwrap();
    assert!(again.repeated && again.took.is_none());
    let found = publish(&client, &full_draft()).await.unwrap();
    assert_eq!(found.state, State::Completed);
    assert!(found.key_expires_at.unwrap() > found.created_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_has_its_code() {
    let shop = Shop::open().await;
    let client = connect(&shop).await;
    publish(&client, &full_draft()).await.unwrap();
    let other = Draft::of_json("orders", r#"{"order": 18}"#).key("order-17");
    let collision = publish(&client, &other).await.unwrap_err();
    let refusal = collision.refusal().unwrap();
    assert_eq!(
        (&refusal.code, refusal.pointers.as_slice()),
        (&Code::KeyCollision, &["/order".to_owned()][..])
    );
    assert!(refusal.job.is_some() && !collision.retryable());
    let wrong = publish(&client, &Draft::of_json("no queue", "{").priority(1000)).await.unwrap_err();
    let fields: Vec<_> = wrong.refusal().unwrap().violations.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(fields, ["queue", "payload", "priority"]);
    let missing = publish(&client, &Draft::of_json("nowhere", "1")).await.unwrap_err();
    assert_eq!(missing.refusal().unwrap().code, Code::QueueNotFound);
    let delivery = shop.lease().await.remove(0);
    let stale = Completion::new(delivery.id.to_string(), "lse_0000000000001");
    assert_eq!(complete(&client, &stale).await.unwrap_err().refusal().unwrap().code, Code::StaleLease);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_race_is_worth_another_try() {
    let shop = Shop::open().await;
    let mut client = connect(&shop).await;
    let transaction =
        client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    transaction.query_one("SELECT count(*) FROM charges", &[]).await.unwrap();
    publish(&connect(&shop).await, &full_draft()).await.unwrap();
    let lost = publish(&transaction, &full_draft()).await.unwrap_err();
    assert!(lost.refusal().is_none() && lost.retryable(), "{lost}");
}
