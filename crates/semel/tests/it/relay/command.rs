//! What people and scripts see.

use serde_json::json;

use super::shop::{Base, Shop};
use crate::run::semel;

#[test]
fn the_table_is_printed_or_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", dir.path().join("shop.db").display());
    for (url, expected) in [
        (url.as_str(), "AUTOINCREMENT"),
        ("postgres://nobody@nowhere/x", "pg_notify"),
        ("mariadb://nobody@nowhere/x", "InnoDB"),
    ] {
        let printed = semel(&["relay", "schema", "--database", url]);
        assert_eq!(printed.code, Some(0), "{}", printed.stderr);
        assert!(printed.stdout.contains(expected), "{}", printed.stdout);
    }
    let server = ["--server", "http://127.0.0.1:9"];
    let missing = semel(&[&["relay", "--once", "--database", &url][..], &server].concat());
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("semel relay schema --apply"), "{}", missing.stderr);
    for _ in 0..2 {
        assert_eq!(semel(&["relay", "schema", "--apply", "--database", &url]).code, Some(0));
    }
    let empty = semel(&[&["relay", "--once", "--json", "--database", &url][..], &server].concat());
    assert_eq!(empty.code, Some(0), "{}", empty.stderr);
    let nothing = json!({ "carried": 0, "known": 0, "refused": 0, "left": { "waiting": 0, "dead": 0 } });
    assert_eq!(empty.json(), nothing);
}

#[test]
fn what_the_server_refused_is_listed_and_can_be_tried_again() {
    let shop = Shop::open(|dir| Base::Sqlite(dir.path().join("shop.db")));
    let server = shop.server.as_ref().expect("it runs");
    let strict = r#"{"delivery":{"type":"pull"},"keyPattern":"k-.*"}"#;
    assert!(server.ask("PUT", "/v1/queues/orders", None, strict).0 < 300);
    let columns = "(queue, payload, idempotency_key, job_group)";
    shop.base.sql(&format!(
        "INSERT INTO semel_outbox {columns} VALUES ('orders', '1', 'bad\u{1b}[2J', 'g'), ('orders', '2', 'k-2', 'g'),
         ('orders', '3', 'bad-3', NULL)"
    ));
    let url = shop.base.url();
    let once = shop.once();
    assert_eq!(once.code, Some(1), "{}", once.stderr);
    let left = json!({ "waiting": 1, "dead": 2 });
    assert_eq!(once.json(), json!({ "carried": 0, "known": 0, "refused": 2, "left": left }));
    let listed = semel(&["relay", "dead", "--database", &url]);
    assert_eq!(listed.code, Some(1), "{}", listed.stderr);
    assert!(listed.stdout.contains("1 rows wait, 2 are dead"), "{}", listed.stdout);
    assert!(
        listed.stdout.contains("bad\\u{1b}[2J") && !listed.stdout.contains('\u{1b}'),
        "{:?}",
        listed.stdout
    );
    let rows = semel(&["relay", "dead", "--json", "--database", &url]).json();
    assert_eq!(
        (&rows["rows"][0]["code"], &rows["rows"][0]["behind"]),
        (&json!("invalid"), &json!(1)),
        "{rows}"
    );
    assert_eq!(rows["rows"][1]["code"], "key_pattern", "{rows}");
    let discarded = semel(&["relay", "discard", "--json", "--database", &url, "1"]);
    assert_eq!((discarded.code, discarded.json()), (Some(0), json!({ "discarded": 1 })));
    let unknown = semel(&["relay", "retry", "--database", &url, "1", "3"]);
    assert_eq!(unknown.code, Some(1), "a row that is not there is a problem: {}", unknown.stdout);
    assert!(server.ask("PUT", "/v1/queues/orders", None, r#"{"delivery":{"type":"pull"}}"#).0 < 300);
    assert_eq!(shop.once().code, Some(0));
    let keys: Vec<_> = shop.jobs().iter().map(|job| job["idempotencyKey"].clone()).collect();
    assert_eq!(keys, ["k-2", "bad-3"]);
}

#[test]
fn a_relay_ends_in_order_and_says_what_it_did() {
    let shop = Shop::open(|dir| Base::Sqlite(dir.path().join("shop.db")));
    let (url, server) = (shop.base.url(), format!("http://{}", shop.address));
    let mut command = crate::server::semel();
    command.args(["relay", "--database", &url, "--server", &server, "--poll", "20"]);
    let relay = crate::server::Server::start(&mut command, "carrying");
    shop.base.insert(0, 5);
    shop.until_jobs(5);
    let ended = relay.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("carried 5 rows"), "{}", ended.stdout);
    shop.assert_published(5);
}

#[test]
fn an_address_that_leads_nowhere_is_told() {
    let nowhere = ["--server", "http://127.0.0.1:9"];
    for (url, expected) in [
        ("oracle://x", "postgres://"),
        ("postgres://nobody@127.0.0.1:9/x", "connect to the database"),
        ("sqlite:/nowhere/shop.db", "open the database"),
    ] {
        let ended = semel(&[&["relay", "--once", "--database", url][..], &nowhere].concat());
        assert_eq!(ended.code, Some(2), "{url}");
        assert!(ended.stderr.contains(expected), "{url}: {}", ended.stderr);
    }
}
