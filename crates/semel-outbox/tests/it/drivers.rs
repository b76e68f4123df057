//! Publishing in the application's own transaction, with each driver.

use std::time::Duration;

use semel_client::http::Client;
use semel_outbox::Publish;
use serde_json::json;
use tokio_postgres::NoTls;

use crate::base::{Base, Kind, on_every_database};
use crate::shop::{Shop, wish};

on_every_database!(
    everything_that_was_asked_for_arrives,
    the_schema_may_be_made_again,
    rows_of_other_languages_are_carried_too,
);

#[tokio::test(flavor = "multi_thread")]
async fn tokio_postgres_publishes_with_the_transaction() {
    let shop = Shop::open(Kind::Postgres).await;
    let (mut client, connection) = tokio_postgres::connect(&shop.base.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    for commits in [false, true] {
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO orders VALUES (1)", &[]).await.unwrap();
        let publish = semel_outbox::tokio_postgres::publish;
        let row = publish(&transaction, &wish("orders", 1, None).priority(3)).await.unwrap();
        assert!(row > 0);
        if commits {
            transaction.commit().await.unwrap();
        }
    }
    drop(client);
    connection.await.unwrap().unwrap();
    one_order_is_carried(shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlx_publishes_with_the_transaction_on_postgres() {
    let shop = Shop::open(Kind::Postgres).await;
    let Base::Postgres(pool, _) = &shop.base else { panic!("it is PostgreSQL") };
    for commits in [false, true] {
        let mut transaction = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES (1)").execute(&mut *transaction).await.unwrap();
        let wish = wish("orders", 1, None);
        assert!(semel_outbox::sqlx_postgres::publish(&mut *transaction, &wish).await.unwrap() > 0);
        if commits {
            transaction.commit().await.unwrap();
        }
    }
    one_order_is_carried(shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlx_publishes_with_the_transaction_on_mariadb() {
    let shop = Shop::open(Kind::Maria).await;
    let Base::Maria(pool, _) = &shop.base else { panic!("it is MariaDB") };
    for commits in [false, true] {
        let mut transaction = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES (1)").execute(&mut *transaction).await.unwrap();
        let wish = wish("orders", 1, None);
        assert!(semel_outbox::sqlx_mysql::publish(&mut *transaction, &wish).await.unwrap() > 0);
        if commits {
            transaction.commit().await.unwrap();
        }
    }
    one_order_is_carried(shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rusqlite_publishes_with_the_transaction() {
    let shop = Shop::open(Kind::Sqlite).await;
    let mut database = shop.base.sqlite();
    for commits in [false, true] {
        let transaction = database.transaction().unwrap();
        transaction.execute("INSERT INTO orders VALUES (1)", []).unwrap();
        assert!(semel_outbox::rusqlite::publish(&transaction, &wish("orders", 1, None)).unwrap() > 0);
        if commits {
            transaction.commit().unwrap();
        }
    }
    drop(database);
    one_order_is_carried(shop).await;
}

/// What was committed is carried, and what was rolled back is not.
async fn one_order_is_carried(shop: Shop) {
    let relay = shop.relay().await;
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.carried, tally.known, tally.refused), (1, 0, 0));
    assert_eq!(shop.keys("orders").await, ["k-0001"]);
    assert_eq!(relay.outbox().depth().await.unwrap().waiting, 0);
    drop(relay);
    shop.close().await;
}

async fn everything_that_was_asked_for_arrives(kind: Kind) {
    let shop = Shop::open(kind).await;
    let wish =
        Publish::of_json("orders", "{\"a\": 1.10, \"b\": \"\u{1f980} ' \\\\\"}").unwrap().key("order ' 17");
    let wish =
        wish.group("g\u{e9}").delay(Duration::from_secs(90)).metadata("origin", "till 'x'").max_attempts(2);
    shop.base.publish(std::slice::from_ref(&wish)).await;
    shop.relay().await.drain().await.unwrap();
    let client = Client::new(format!("http://{}", shop.address)).unwrap();
    let found = client.publish(&wish).await.unwrap();
    assert!(found.deduplicated && found.payload_matches);
    let job = client.job(&found.id).await.unwrap();
    assert_eq!(job.payload.unwrap().get(), wish.payload(), "byte for byte");
    assert_eq!((job.group.as_deref(), job.max_attempts), (Some("g\u{e9}"), 2));
    assert_eq!(job.metadata["origin"], "till 'x'");
    assert_eq!(job.scheduled_for, job.created_at + Duration::from_secs(90));
    shop.close().await;
}

async fn the_schema_may_be_made_again(kind: Kind) {
    let shop = Shop::open(kind).await;
    shop.base.publish(&[wish("orders", 1, None)]).await;
    let relay = shop.relay().await;
    let (one, other) = tokio::join!(relay.outbox().ensure_schema(), relay.outbox().ensure_schema());
    one.and(other).unwrap();
    assert_eq!(relay.outbox().depth().await.unwrap().waiting, 1, "what is there stays");
    shop.base.sql("DROP TABLE semel_outbox");
    let missing = relay.drain().await.unwrap_err().to_string();
    assert!(missing.contains("semel relay schema"), "{missing}");
    relay.outbox().ensure_schema().await.unwrap();
    assert_eq!(relay.outbox().depth().await.unwrap().waiting, 0);
    drop(relay);
    shop.close().await;
}

async fn rows_of_other_languages_are_carried_too(kind: Kind) {
    let shop = Shop::open(kind).await;
    let insert =
        "INSERT INTO semel_outbox (queue, payload, options) VALUES ('orders', '[1]', '{\"priority\": 3}')";
    shop.base.sql(insert);
    shop.base.sql(insert);
    let tally = shop.relay().await.drain().await.unwrap();
    assert_eq!(tally.carried, 2);
    let keys = shop.keys("orders").await;
    assert_eq!(keys.len(), 2);
    assert!(keys[0] != keys[1] && keys[0].len() >= 32, "each row has a key of its own: {keys:?}");
    let client = Client::new(format!("http://{}", shop.address)).unwrap();
    let found = client.publish(&Publish::new("orders", &json!([1])).unwrap().key(&keys[0])).await.unwrap();
    assert_eq!(client.job(&found.id).await.unwrap().priority, 3);
    shop.close().await;
}
