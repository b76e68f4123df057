//! Relays and servers that are killed.

use std::time::Duration;

use semel_cluster::{Cluster, Proxy, Seen, Side, Trap};

use super::shop::{Base, Shop};

/// Rows that are inserted before each kill.
const SOME: usize = 30;

const SOON: Duration = Duration::from_secs(30);

/// Where a relay is killed: what it was about to hear or say, to the server or to the database.
enum Place {
    Server(Trap),
    Database(Trap),
}

fn bytes(from: Side, text: &str, deliver: bool) -> Trap {
    Trap { from, when: Seen::Bytes(text.as_bytes().to_vec()), deliver }
}

fn places() -> Vec<Place> {
    let count = |from, bytes| Trap { from, when: Seen::Count(bytes), deliver: false };
    vec![
        // Rows are claimed, and the server hears nothing; or half of it; or does it, and cannot say so.
        Place::Server(bytes(Side::Client, "POST /v1/queues", false)),
        Place::Server(count(Side::Client, 1000)),
        Place::Server(bytes(Side::Server, "HTTP/1.1 200", false)),
        Place::Server(count(Side::Server, 500)),
        // The jobs are there, and the rows are not deleted; or they are, and nobody commits; or nobody hears of it.
        Place::Database(bytes(Side::Client, "DELETE FROM semel_outbox", false)),
        Place::Database(bytes(Side::Client, "DELETE FROM semel_outbox", true)),
        Place::Database(Trap::commit_lost()),
        Place::Database(Trap::commit_sent()),
        Place::Database(Trap::commit_answer_lost()),
        // In the middle of what it claims.
        Place::Database(count(Side::Server, 2500)),
    ]
}

#[test]
fn heavy_a_relay_killed_at_any_place_loses_nothing_and_publishes_nothing_twice() {
    let shop = Shop::open(|_| Base::Cluster(Cluster::start().expect("a cluster starts")));
    let Base::Cluster(cluster) = &shop.base else { unreachable!("it was made above") };
    let (to_server, to_database) =
        (Proxy::to(shop.address).expect("a proxy"), Proxy::to(cluster.address()).expect("a proxy"));
    let url = cluster.url_through(to_database.address(), "postgres");
    let mut rows = 0;
    for place in places() {
        shop.base.insert(rows, rows + SOME);
        rows += SOME;
        let proxy = match place {
            Place::Server(trap) => {
                to_server.cut_when(trap);
                &to_server
            }
            Place::Database(trap) => {
                to_database.cut_when(trap);
                &to_database
            }
        };
        let relay = shop.relay(&url, to_server.address());
        assert!(proxy.wait_until_sprung(SOON), "the relay did not get there");
        relay.kill();
    }
    let last = shop.once();
    assert_eq!(last.code, Some(0), "{}{}", last.stdout, last.stderr);
    shop.assert_published(rows);
}

#[test]
fn heavy_a_relay_of_sqlite_killed_again_and_again_loses_nothing() {
    killed_again_and_again(&Shop::open(|dir| Base::Sqlite(dir.path().join("shop.db"))));
}

#[test]
fn heavy_a_relay_of_mariadb_killed_again_and_again_loses_nothing() {
    killed_again_and_again(&Shop::open(|_| Base::maria()));
}

/// Two relays at a time, of which one is killed as soon as something has moved.
fn killed_again_and_again(shop: &Shop) {
    let mut rows = 0;
    let mut other = shop.plain_relay();
    for _ in 0..6 {
        let relay = shop.plain_relay();
        shop.base.insert(rows, rows + SOME);
        shop.until_jobs(rows + 1);
        rows += SOME;
        other.kill();
        other = relay;
    }
    other.kill();
    let last = shop.once();
    assert_eq!(last.code, Some(0), "{}{}", last.stdout, last.stderr);
    shop.assert_published(rows);
}

#[test]
fn heavy_what_a_killed_relay_had_claimed_is_taken_over_at_once() {
    let shop = Shop::open(|_| Base::postgres());
    let proxy = Proxy::to(shop.address).expect("a proxy");
    // The first claims all rows and hears nothing of the server.
    proxy.hold(Side::Server);
    shop.base.insert(0, 20);
    let first = shop.relay(&shop.base.url(), proxy.address());
    shop.until_jobs(1);
    let second = shop.plain_relay();
    let Base::Postgres(database) = &shop.base else { unreachable!("it was made above") };
    let count = || database.sql("SELECT count(*) FROM semel_outbox").expect("SQL");
    assert_eq!(count(), "20", "they are still the first one's");
    first.kill();
    let start = std::time::Instant::now();
    while count() != "0" {
        assert!(start.elapsed() < SOON, "nobody took over");
        std::thread::sleep(Duration::from_millis(5));
    }
    second.kill();
    shop.assert_published(20);
}

#[test]
fn heavy_a_database_that_is_killed_is_waited_for() {
    let mut shop = Shop::open(|_| Base::Cluster(Cluster::start().expect("a cluster starts")));
    let _relays = [shop.plain_relay(), shop.plain_relay()];
    for round in 0..2 {
        shop.base.insert(round * SOME, (round + 1) * SOME);
        shop.until_jobs(round * SOME + 1);
        let Base::Cluster(cluster) = &mut shop.base else { unreachable!("it was made above") };
        cluster.kill().and_then(|()| cluster.restart()).expect("it starts again");
    }
    shop.until_jobs(2 * SOME);
    shop.assert_published(2 * SOME);
}

#[test]
fn heavy_a_server_that_is_killed_again_and_again_gets_everything_once() {
    let mut shop = Shop::open(|_| Base::postgres());
    let _relays = [shop.plain_relay(), shop.plain_relay()];
    for round in 0..4 {
        shop.base.insert(round * SOME, (round + 1) * SOME);
        shop.until_jobs(round * SOME + 1);
        shop.kill_server();
    }
    shop.until_jobs(4 * SOME);
    shop.assert_published(4 * SOME);
}
