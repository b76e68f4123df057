//! Rows that the server refuses: dead, visible, in nobody's way but their group's.

use serde_json::json;

use crate::base::{Kind, on_every_database};
use crate::shop::{Shop, wish};

on_every_database!(
    a_refused_row_holds_up_its_group_and_nobody_else,
    a_dead_row_that_is_discarded_makes_way,
    a_row_that_is_no_publish_is_dead,
);

async fn a_refused_row_holds_up_its_group_and_nobody_else(kind: Kind) {
    let shop = Shop::open(kind).await;
    shop.queue("orders", json!({ "keyPattern": "k-.*" })).await;
    let bad = wish("orders", 2, Some("a")).key("order-2");
    let wishes = [
        wish("orders", 1, Some("a")),
        bad,
        wish("orders", 3, Some("a")),
        wish("orders", 4, Some("b")),
        wish("orders", 5, None),
        wish("mails", 6, Some("a")),
    ];
    shop.base.publish(&wishes).await;
    let relay = shop.relay().await;
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.carried, tally.refused), (4, 1));
    assert_eq!(shop.keys("orders").await, ["k-0001", "k-0004", "k-0005"]);
    assert_eq!(shop.keys("mails").await, ["k-0006"], "the group of another queue is another group");
    let depth = relay.outbox().depth().await.unwrap();
    assert_eq!((depth.waiting, depth.dead), (1, 1));
    let dead = relay.outbox().dead(10).await.unwrap().remove(0);
    assert_eq!(
        (dead.queue.as_str(), dead.key.as_str(), dead.group.as_deref()),
        ("orders", "order-2", Some("a"))
    );
    assert_eq!((dead.code.as_str(), dead.behind), ("key_pattern", 1));
    assert!(!dead.reason.is_empty() && dead.at.starts_with("20") && dead.at.ends_with('Z'), "{dead:?}");
    assert_eq!(relay.drain().await.unwrap().carried, 0, "nobody asked for another try");
    shop.queue("orders", json!({})).await;
    assert_eq!(relay.outbox().retry(Some(&[dead.id])).await.unwrap(), 1);
    assert_eq!(relay.drain().await.unwrap().carried, 2);
    assert_eq!(shop.keys("orders").await[3..], ["order-2".to_owned(), "k-0003".to_owned()]);
    drop(relay);
    shop.close().await;
}

async fn a_dead_row_that_is_discarded_makes_way(kind: Kind) {
    let shop = Shop::open(kind).await;
    shop.queue("orders", json!({ "keyPattern": "k-.*" })).await;
    let bad = |n| wish("orders", n, Some("a")).key(format!("order-{n}"));
    shop.base.publish(&[bad(1), wish("orders", 2, Some("a")), bad(3), wish("orders", 4, Some("a"))]).await;
    let relay = shop.relay().await;
    assert_eq!(relay.drain().await.unwrap().refused, 1);
    assert_eq!(relay.outbox().discard(Some(&[0])).await.unwrap(), 0, "no such row");
    assert_eq!(relay.outbox().discard(None).await.unwrap(), 1);
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.carried, tally.refused), (1, 1));
    assert_eq!(relay.outbox().retry(None).await.unwrap(), 1);
    assert_eq!(relay.drain().await.unwrap().refused, 1, "it is refused again");
    assert_eq!(shop.keys("orders").await, ["k-0002"]);
    let depth = relay.outbox().depth().await.unwrap();
    assert_eq!((depth.waiting, depth.dead), (1, 1));
    drop(relay);
    shop.close().await;
}

async fn a_row_that_is_no_publish_is_dead(kind: Kind) {
    let shop = Shop::open(kind).await;
    let options = "INSERT INTO semel_outbox (queue, payload, options) VALUES ('orders', '1', '[]')";
    shop.base.sql(options);
    let colour =
        "INSERT INTO semel_outbox (queue, payload, options) VALUES ('orders', '1', '{\"colour\": \"red\"}')";
    shop.base.sql(colour);
    // PostgreSQL refuses what is no JSON when it is inserted.
    if kind != Kind::Postgres {
        shop.base.sql("INSERT INTO semel_outbox (queue, payload) VALUES ('orders', '{')");
    }
    shop.base.publish(&[wish("orders", 1, None)]).await;
    let relay = shop.relay().await;
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.carried, tally.refused), (1, if kind == Kind::Postgres { 2 } else { 3 }));
    let dead = relay.outbox().dead(10).await.unwrap();
    assert!(dead.iter().all(|row| row.code == "invalid"), "{dead:?}");
    assert!(dead[0].reason.contains("options") && dead[1].reason.contains("colour"), "{dead:?}");
    drop(relay);
    shop.close().await;
}
