//! `semel job`, `jobs` and `key`.

use serde_json::json;

use super::{World, assert_failed, steady};

#[test]
fn a_job_is_shown_with_every_delivery_and_can_be_called_off() {
    let world = World::with_orders();
    world.api("PUT", "/v1/queues/orders", &json!({ "retry": { "strategy": "fixed", "base": 0 } }));
    let id = world.publish("order-1", &json!({ "order": 1 }));
    world.publish("order-1", &json!({ "order": 1 }));
    world.work("nack", &json!({ "reason": "card\u{1b}[2J declined" }));
    world.work("defer", &json!({ "retryAfter": 3600, "scope": "job", "reason": "later" }));
    let expected = "JOB in orders: pending
key order-1
published TIME
duplicates 1 more publishes were answered with this job
next delivery TIME
attempts 1 of 10
deferred 1 times, which burned no attempt
last error later
payload {\"order\":1}

attempt settled outcome took more
1 TIME nacked N ms card\\u{1b}[2J declined
2 TIME deferred N ms later";
    assert_eq!(steady(&world.good(&["job", &id])), expected);
    assert!(steady(&world.good(&["job", &id, "cancel"])).starts_with("JOB in orders: cancelled"));
    assert_eq!(world.good_json(&["job", &id])["status"], "cancelled");
    assert_failed(&world.run(&["job", &id, "cancel"]), 6, "wrong_state", "twice");
    assert_eq!(world.run(&["job", &id, "--wait", "1s"]).code, Some(1), "it did not complete");
}

#[test]
fn jobs_are_listed_page_by_page() {
    let world = World::with_orders();
    for n in 0..7 {
        world.publish(&format!("order-{n}"), &json!(n));
    }
    let ended = world.run(&["jobs", "--limit", "2"]);
    let expected = "job status attempts published queue key
JOB pending 0/10 TIME orders order-6
JOB pending 0/10 TIME orders order-5";
    assert_eq!((ended.code, steady(&ended.stdout).as_str()), (Some(0), expected));
    let cursor = ended.stderr.trim().strip_prefix("more follow: add --all, or --cursor ").expect("a cursor");
    let rest = world.good(&["jobs", "--cursor", cursor, "--all"]);
    assert_eq!(rest.lines().count(), 6, "{rest}");
    let page = world.good_json(&["jobs", "--queue", "orders", "--key", "order-3"]);
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(1), "{page}");
    let none = world.run(&["jobs", "--status", "dead", "--group", "g", "--meta", "a=b", "--duplicated", "2"]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (Some(0), "", "no jobs\n"));
    assert_failed(&world.run(&["jobs", "--status", "gone"]), 6, "must be one of", "an unknown status");
}

#[test]
fn whoever_stops_reading_is_not_told_off() {
    let world = World::with_orders();
    let jobs: Vec<_> = (0..1000).map(|n| json!({ "payload": "x".repeat(200), "priority": n % 9 })).collect();
    world.api("POST", "/v1/queues/orders/jobs/batch", &json!({ "jobs": jobs }));
    for args in [&["jobs", "--all"][..], &["jobs", "--all", "--json"]] {
        let mut command = world.command(args);
        let spawned =
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
        let mut child = spawned.expect("it starts");
        // A page is larger than what a pipe holds, so it cannot have ended before this.
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
    }
}

#[test]
fn the_first_line_of_a_key_says_whether_it_happened_twice() {
    let world = World::with_orders();
    world.api("PUT", "/v1/queues/orders", &json!({ "retry": { "strategy": "fixed", "base": 0 } }));
    world.publish("order-9482", &json!(1));
    world.publish("order-9482", &json!(1));
    world.publish("order-9482", &json!(2));
    world.work("nack", &json!({ "reason": "timed out" }));
    world.work("ack", &json!({ "effect": { "outcome": "applied", "key": "charge-9482" } }));
    let expected = "order-9482 in orders: the effect was applied once
published 3 times, 2 of them suppressed, 1 of them with another payload
the key holds until TIME; its job is JOB

at event what
TIME published
TIME suppressed same payload
TIME suppressed OTHER payload
TIME leased attempt 1
TIME delivered nacked, attempt 1, timed out
TIME leased attempt 2
TIME delivered success, attempt 2
TIME effect applied (charge-9482), attempt 2
TIME ended completed
TIME expires";
    let shown = steady(&world.good(&["key", "orders", "order-9482"]));
    // Two moments within one millisecond may change places.
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines[4..].sort();
        lines
    };
    assert_eq!(sorted(&shown), sorted(expected), "{shown}");
}

#[test]
fn a_key_is_released_only_when_it_is_meant() {
    let world = World::with_orders();
    let first = world.publish("order/1?x", &json!(1));
    let release = ["key", "orders", "order/1?x", "release"];
    assert_failed(&world.run(&release), 2, "add --yes", "nobody can be asked");
    assert_eq!(world.good_json(&["key", "orders", "order/1?x"])["holds"], true);
    world.good(&[&release[..], &["--reason", "charged by hand", "--yes"]].concat());
    let shown = world.good(&["key", "orders", "order/1?x"]);
    assert!(shown.contains("the key holds no more: a publish makes a new job"), "{shown}");
    let released = world.good(&["job", &first]);
    assert!(released.contains("(released: charged by hand)"), "{released}");
    assert_ne!(world.publish("order/1?x", &json!(1)), first, "another job");
}
