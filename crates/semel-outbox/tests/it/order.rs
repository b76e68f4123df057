//! Order per group, with as many relays as there are.

use std::collections::BTreeMap;

use crate::base::{Kind, on_every_database};
use crate::shop::{Carrying, Shop, until, wish};

on_every_database!(several_relays_keep_the_order_of_groups_and_publish_nothing_twice);

const ROWS: usize = 300;
const GROUPS: usize = 5;

fn group(n: usize) -> Option<String> {
    // Every sixth row has no order.
    (n % (GROUPS + 1) < GROUPS).then(|| format!("g-{}", n % (GROUPS + 1)))
}

async fn several_relays_keep_the_order_of_groups_and_publish_nothing_twice(kind: Kind) {
    let shop = Shop::open(kind).await;
    let mut carrying = Vec::new();
    for batch in [3, 7, 50] {
        let poll = std::time::Duration::from_millis(20);
        carrying.push(Carrying::start(shop.relay().await.batch(batch).lanes(2).poll(poll)));
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
