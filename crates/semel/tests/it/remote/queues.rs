//! `semel queue`.

use serde_json::{Value, json};

use super::{World, assert_failed, steady};

#[test]
fn a_queue_is_made_shown_and_deleted() {
    let world = World::new();
    let none = world.run(&["queue", "list"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{}", none.stderr);
    let made = world.good(&["queue", "set", "orders", "maxAttempts=3", "window=7d"]);
    assert!(made.starts_with("orders was made\n  collisionIgnore"), "{made}");
    assert!(
        steady(&made).contains("\nmaxAttempts 3\n") && steady(&made).contains("\nwindow 604800"),
        "{made}"
    );
    world.publish("k", &json!(1));
    let expected = "queue state pending leased dead delivery\norders open 1 0 0 pull";
    assert_eq!(steady(&world.good(&["queue", "list"])), expected);
    let shown = steady(&world.good(&["queue", "show", "orders"]));
    assert!(
        shown.starts_with("orders: open\nunfinished 1 pending, 0 processing, 0 awaiting ack\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\ndelivery.type pull\n") && shown.contains("\nretry.strategy exponential\n"),
        "{shown}"
    );
    assert_eq!(world.good_json(&["queue", "show", "orders"])["name"], "orders");

    let delete = ["queue", "delete", "orders"];
    assert_failed(&world.run(&delete), 2, "add --yes", "nobody can be asked");
    assert_failed(&world.run(&[&delete[..], &["--yes"]].concat()), 6, "queue_not_empty", "a job waits");
    world.work("ack", &json!({}));
    world.good(&[&delete[..], &["--yes"]].concat());
    assert_failed(&world.run(&["queue", "show", "orders"]), 5, "there is no queue orders", "deleted");
}

#[test]
fn a_change_keeps_every_other_setting() {
    let world = World::new();
    let all = json!({
        "delivery": { "type": "push", "url": "http://192.0.2.1/", "mode": "ack", "timeout": 2.5, "ackTimeout": 20,
            "ackTimeoutAction": "dead", "signature": "simpleq" },
        "retry": { "strategy": "fixed", "base": 2, "factor": 3.0, "cap": 60, "jitter": "none" },
        "maxAttempts": 7, "concurrency": 3, "rate": { "count": 5, "per": 2, "burst": 9 }, "groupConcurrency": 2,
        "deferScope": "job", "breaker": { "failures": 4, "cooldown": 11 }, "window": 900_000, "requireKey": true,
        "keyPattern": "order-[0-9]+", "onCollision": "reject", "collisionIgnore": ["/at"], "onDead": "revive",
        "retention": { "completed": 100, "dead": 200, "archive": true }, "duplicates": { "limit": 3, "action": "dead" },
        "payloadLimit": 1000, "ledgerTtl": 1_000_000
    });
    let file = world.file("orders.json", &all.to_string());
    world.good(&["queue", "set", "orders", "--file", &file]);
    let changed = world.good(&["queue", "set", "orders", "retry.base=5s", "breaker=null", "rate.count=6"]);
    let expected = "orders was changed
breaker.cooldown 11 -> none
breaker.failures 4 -> none
rate.count 5 -> 6
retry.base 2 -> 5";
    assert!(steady(&changed).starts_with(expected), "{changed}");
    let after = world.good_json(&["queue", "show", "orders"]);
    let mut wanted = all.clone();
    wanted["retry"]["base"] = json!(5);
    wanted["rate"]["count"] = json!(6);
    wanted["breaker"] = Value::Null;
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(&after[name], value, "{name}");
    }
    // What is shown can be put back, and another way of delivery takes its own settings only.
    let file = world.file("shown.json", &after.to_string());
    let same = world.good(&["queue", "set", "orders", "--file", &file]);
    assert!(same.starts_with("orders is as it was\n"), "{same}");
    world.good(&["queue", "set", "orders", "--pull", "delivery.leaseSeconds=2m"]);
    let pull = world.good_json(&["queue", "show", "orders"]);
    assert_eq!(pull["delivery"], json!({ "type": "pull", "leaseSeconds": 120 }));
    world.good(&["queue", "set", "new", "delivery.leaseSeconds=30s"]);
    assert_eq!(
        world.good_json(&["queue", "show", "new"])["delivery"],
        json!({ "type": "pull", "leaseSeconds": 30 })
    );
    let warned = world.good(&["queue", "set", "orders", "window=1s"]);
    assert!(warned.contains("warning: "), "{warned}");
}

#[test]
fn what_is_wrong_with_a_setting_changes_nothing() {
    let world = World::with_orders();
    let before = world.good_json(&["queue", "show", "orders"]);
    let list = world.file("list.json", "[1]");
    for (args, code, words) in [
        (&["maxAttempts=0"][..], 6, "maxAttempts"),
        (&["maxAttempt=3"], 6, "maxAttempt"),
        (&["window=soon"], 6, "window"),
        (&["maxAttempts.x=3"], 2, "maxAttempts is 10 and has no x"),
        (&["--file", &list], 2, "does not hold a JSON object"),
        (&["--file", "/nowhere/at-all"], 2, "cannot read /nowhere/at-all"),
        (&["--push", "ftp://x"], 6, "url"),
    ] {
        let args = [&["queue", "set", "orders"], args].concat();
        assert_failed(&world.run(&args), code, words, &format!("{args:?}"));
    }
    assert_eq!(world.good_json(&["queue", "show", "orders"]), before);
}

#[test]
fn deliveries_stop_and_go_on_and_secrets_are_shown_once() {
    let world = World::with_orders();
    assert!(world.good(&["queue", "pause", "orders"]).starts_with("orders is paused"));
    assert_eq!(world.good_json(&["queue", "show", "orders"])["paused"], true);
    assert!(steady(&world.good(&["queue", "list"])).contains("orders paused"));
    assert_eq!(world.good(&["queue", "resume", "orders"]), "orders delivers\n");
    assert_eq!(world.good_json(&["queue", "show", "orders"])["paused"], false);
    world.good(&["queue", "set", "orders", "--push", "https://192.0.2.1/jobs"]);
    let rotated = world.run(&["queue", "rotate-secret", "orders", "--overlap", "1h"]);
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    assert!(
        rotated.stdout.starts_with("whsec_") && rotated.stdout.lines().count() == 1,
        "{}",
        rotated.stdout
    );
    assert!(
        !rotated.stderr.contains(rotated.stdout.trim()) && rotated.stderr.contains("until"),
        "{}",
        rotated.stderr
    );
    for task in ["pause", "resume", "rotate-secret", "show"] {
        assert_failed(&world.run(&["queue", task, "none"]), 5, "there is no queue none", task);
    }
}
