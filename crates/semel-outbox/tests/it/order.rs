//! Order per group, with as many relays as there are.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{Kind, on_every_database};
use crate::shop::{Carrying, Shop, until, wish};

on_every_database!(
    several_relays_keep_the_order_of_groups_and_publish_nothing_twice,
    a_row_that_comes_late_is_carried_whatever_came_before_it,
);

const ROWS: usize = 300;
const GROUPS: usize = 5;

/// How often a relay looks, where nobody announces rows.
const SOON: Duration = Duration::from_millis(20);

fn group(n: usize) -> Option<String> {
    // Every sixth row has no order.
    (n % (GROUPS + 1) < GROUPS).then(|| format!("g-{}", n % (GROUPS + 1)))
}

async fn several_relays_keep_the_order_of_groups_and_publish_nothing_twice(kind: Kind) {
    let shop = Shop::open(kind).await;
    let mut carrying = Vec::new();
    for batch in [3, 7, 50] {
        carrying.push(Carrying::start(shop.relay().await.batch(batch).lanes(2).poll(SOON)));
    }
    for some in (0..ROWS).collect::<Vec<_>>().chunks(10) {
        let wishes: Vec<_> = some.iter().map(|n| wish("orders", *n, group(*n).as_deref())).collect();
        shop.base.publish(&wishes).await;
    }
    let relay = shop.relay().await;
    until(async || relay.outbox().depth().await.unwrap().waiting == 0).await;
    let mut carried = 0;
    for relay in carrying {
        let tally = relay.stop().await;
        assert_eq!((tally.known, tally.refused), (0, 0), "no row was published by two");
        carried += tally.carried;
    }
    assert_eq!(carried, u64::try_from(ROWS).unwrap());
    let mut by_group: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for key in shop.keys("orders").await {
        let n: usize = key[2..].parse().unwrap();
        by_group.entry(group(n)).or_default().push(key);
    }
    assert_eq!(by_group.values().map(Vec::len).sum::<usize>(), ROWS);
    for (group, keys) in by_group.iter().filter(|(group, _)| group.is_some()) {
        assert!(keys.is_sorted_by(|a, b| a < b), "{group:?}: {keys:?}");
    }
    drop(relay);
    shop.close().await;
}

/// A row with a number below all others, as one whose transaction committed last.
fn late(kind: Kind, group: Option<&str>) -> String {
    let own_number = if kind == Kind::Postgres { "OVERRIDING SYSTEM VALUE" } else { "" };
    let group = group.map_or("NULL".to_owned(), |group| format!("'{group}'"));
    format!(
        "INSERT INTO semel_outbox (id, queue, idempotency_key, job_group, payload) {own_number}
         VALUES (1, 'orders', 'late', {group}, '1')"
    )
}

async fn a_row_that_comes_late_is_carried_whatever_came_before_it(kind: Kind) {
    for group in [None, Some("a")] {
        let shop = Shop::open(kind).await;
        let rows: Vec<_> = (0..100).map(|n| wish("orders", n, group)).collect();
        shop.base.publish(&rows).await;
        shop.base.sql("DELETE FROM semel_outbox WHERE id = 1");
        let carrying = Carrying::start(shop.relay().await.batch(1).lanes(1).poll(SOON));
        until(async || shop.keys("orders").await.len() > 2).await;
        shop.base.sql(&late(kind, group));
        let before = shop.keys("orders").await.len();
        until(async || shop.keys("orders").await.len() == 100).await;
        let keys = shop.keys("orders").await;
        // One row may have been on its way. Past that its group waits for it, and nobody else is far ahead of it.
        let ahead = if group.is_some() { 1 } else { 17 };
        let place = keys.iter().position(|key| key == "late").expect("it was carried");
        assert!(place <= before + ahead, "{group:?}: {place}, of which {before} were before it");
        let others: Vec<_> = keys.iter().filter(|key| *key != "late").collect();
        assert_eq!(others.len(), 99);
        assert!(others.is_sorted(), "{group:?}: {others:?}");
        assert_eq!(carrying.stop().await.carried, 100);
        shop.close().await;
    }
}
