//! A server that goes away, answers that are lost, keys that are wrong.

use std::time::Duration;

use semel_cluster::{Proxy, Seen, Side, Trap};
use semel_server::service::AuthMode;

use crate::base::{Kind, on_every_database};
use crate::shop::{Carrying, Shop, until, wish};

on_every_database!(
    a_lost_answer_publishes_nothing_twice,
    a_server_that_goes_away_is_waited_for,
    a_wrong_api_key_makes_no_row_dead,
);

async fn a_lost_answer_publishes_nothing_twice(kind: Kind) {
    let shop = Shop::open(kind).await;
    let wishes: Vec<_> = (0..20).map(|n| wish("orders", n, None)).collect();
    shop.base.publish(&wishes).await;
    let proxy = Proxy::to(shop.address).unwrap();
    // The server has committed when it answers, and this answer never arrives.
    let lost = Seen::Bytes(b"HTTP/1.1 200".to_vec());
    proxy.cut_when(Trap { from: Side::Server, when: lost, deliver: false });
    let tally = shop.relay_to(proxy.address()).await.drain().await.unwrap();
    assert!(proxy.wait_until_sprung(Duration::ZERO), "the answer was to be lost");
    assert_eq!((tally.carried, tally.known), (20, 20));
    assert_eq!(shop.keys("orders").await.len(), 20);
    drop(proxy);
    shop.close().await;
}

async fn a_server_that_goes_away_is_waited_for(kind: Kind) {
    let shop = Shop::open(kind).await;
    let proxy = Proxy::to(shop.address).unwrap();
    let carrying = Carrying::start(shop.relay_to(proxy.address()).await.poll(Duration::from_millis(20)));
    shop.base.publish(&[wish("orders", 1, Some("a"))]).await;
    until(async || shop.keys("orders").await.len() == 1).await;
    proxy.refuse();
    proxy.cut();
    shop.base.publish(&[wish("orders", 2, Some("a"))]).await;
    proxy.pass();
    shop.base.publish(&[wish("orders", 3, Some("a"))]).await;
    until(async || shop.keys("orders").await.len() == 3).await;
    assert_eq!(shop.keys("orders").await, ["k-0001", "k-0002", "k-0003"]);
    let tally = carrying.stop().await;
    assert_eq!((tally.carried, tally.refused), (3, 0));
    drop(proxy);
    shop.close().await;
}

async fn a_wrong_api_key_makes_no_row_dead(kind: Kind) {
    let shop = Shop::with(kind, AuthMode::Keys).await;
    shop.base.publish(&[wish("orders", 1, None)]).await;
    let relay = shop.relay().await;
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.carried, tally.refused), (0, 0));
    let depth = relay.outbox().depth().await.unwrap();
    assert_eq!((depth.waiting, depth.dead), (1, 0));
    drop(relay);
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_announces_new_rows() {
    let shop = Shop::open(Kind::Postgres).await;
    // Looking by itself would come after the test has given up.
    let carrying = Carrying::start(shop.relay().await.poll(Duration::from_secs(3600)));
    for n in 1..=3 {
        shop.base.publish(&[wish("orders", n, None)]).await;
        until(async || shop.keys("orders").await.len() == n).await;
    }
    assert_eq!(carrying.stop().await.carried, 3);
    shop.close().await;
}

/// A place in a table is one in each of its partitions.
#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_that_somebody_divided_loses_nothing() {
    let shop = Shop::open(Kind::Postgres).await;
    shop.base.sql(
        "ALTER TABLE semel_outbox RENAME TO whole;
         CREATE TABLE semel_outbox (LIKE whole INCLUDING DEFAULTS) PARTITION BY LIST (queue);
         CREATE SEQUENCE numbers;
         ALTER TABLE semel_outbox ALTER id SET DEFAULT nextval('numbers');
         CREATE TABLE orders_outbox PARTITION OF semel_outbox FOR VALUES IN ('orders');
         CREATE TABLE mail_outbox PARTITION OF semel_outbox FOR VALUES IN ('mail')",
    );
    shop.base.publish(&[wish("orders", 1, None), wish("mail", 2, None)]).await;
    let tally = shop.relay().await.batch(1).drain().await.unwrap();
    assert_eq!(tally.carried, 2);
    assert_eq!((shop.keys("orders").await.len(), shop.keys("mail").await.len()), (1, 1));
    shop.close().await;
}
