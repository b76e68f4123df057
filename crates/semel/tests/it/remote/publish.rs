//! `semel publish`.

use std::time::Duration;

use semel_cluster::{Proxy, Seen, Side, Trap};
use serde_json::{Value, json};

use super::{World, assert_failed, steady};

fn jobs(world: &World) -> Vec<Value> {
    let page = world.api("GET", "/v1/jobs?queue=orders", &Value::Null);
    page["jobs"].as_array().expect("a list").clone()
}

#[test]
fn publishing_again_finds_the_same_job() {
    let world = World::with_orders();
    let args = ["publish", "orders", "{\"order\": 9482}", "--key", "order-9482"];
    assert_eq!(steady(&world.good(&args)), "JOB was published to orders");
    let again = "JOB was published under this key before and is pending; no other job was made";
    assert_eq!(steady(&world.good(&args)), again);
    let other = world.good(&["publish", "orders", "{\"order\": 1}", "--key", "order-9482"]);
    assert!(other.contains("its payload was another one"), "{other}");
    let found = world.good_json(&args);
    assert_eq!((&found["deduplicated"], &found["payloadMatches"]), (&true.into(), &true.into()));
    assert_eq!(jobs(&world).len(), 1);
}

#[test]
fn everything_that_can_be_said_arrives() {
    let world = World::with_orders();
    let file = world.file("payload.json", "{\"b\": 1.10, \"a\": \"\\u00e9\"}\n");
    let options = "--delay 10m --priority -3 --group customer-7 --meta kind=welcome --meta tenant=7";
    let options: Vec<_> = options.split(' ').collect();
    let payload = format!("@{file}");
    world.good(&[&["publish", "orders", payload.as_str(), "--generate-key"], &options[..]].concat());
    let job = jobs(&world).remove(0);
    assert_eq!(job["payload"], json!({ "b": 1.1, "a": "é" }));
    assert_eq!((&job["priority"], &job["group"]), (&json!(-3), &json!("customer-7")));
    assert_eq!(job["metadata"], json!({ "kind": "welcome", "tenant": "7" }));
    assert!(job["idempotencyKey"].as_str().is_some_and(|key| key.starts_with("gen-")), "{job}");
    assert!(job["scheduledFor"].as_str() > job["createdAt"].as_str(), "{job}");
    let shown = world.good(&["job", job["id"].as_str().unwrap(), "--json"]);
    assert!(shown.contains(r#"{"b": 1.10, "a": "\u00e9"}"#), "byte for byte: {shown}");

    assert_eq!(world.run_with(&["publish", "orders", "-"], "-5").code, Some(0), "from stdin");
    let tomorrow = format!("{:.0}", jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24));
    world.good(&["publish", "orders", "-7", "--run-at", &tomorrow]);
    let payloads: Vec<_> = jobs(&world).iter().map(|job| job["payload"].clone()).collect();
    assert_eq!(payloads[..2], [json!(-7), json!(-5)]);
    let later = &jobs(&world)[0];
    assert_eq!(later["scheduledFor"], tomorrow.replace('Z', ".000Z"));
    assert_eq!(later["idempotencyKey"], Value::Null);
}

#[test]
fn with_wait_the_result_is_shown() {
    let world = World::with_orders();
    let mut command = world.command(&["publish", "orders", "1", "--key", "k", "--wait", "60s"]);
    let waiting = std::thread::spawn(move || super::ended(&mut command, ""));
    world.work("ack", &json!({ "result": { "charged": true }, "effect": { "outcome": "applied" } }));
    let ended = waiting.join().expect("it ends");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let expected = "JOB in orders: completed
key k
published TIME
ended TIME
attempts 1 of 10
receipt the effect was applied
result {\"charged\":true}
payload 1

attempt settled outcome took more
1 TIME success N ms effect applied";
    assert_eq!(steady(&ended.stdout), expected);
    let again = world.run(&["publish", "orders", "1", "--key", "k", "--wait", "0", "--json"]);
    assert_eq!((again.code, &again.json()["result"]["charged"]), (Some(0), &true.into()));
    let unfinished = world.run(&["publish", "orders", "2", "--wait", "0"]);
    assert_eq!(unfinished.code, Some(1), "{}", unfinished.stderr);
    assert!(unfinished.stdout.contains("orders: pending"), "{}", unfinished.stdout);
}

#[test]
fn a_lost_answer_is_asked_for_again_under_the_same_key() {
    for (option, code, words) in [
        (&["--key", "k"][..], 0, "was published under this key before"),
        (&["--generate-key"][..], 0, "was published under this key before"),
        (&[][..], 3, "it may have happened"),
    ] {
        let mut world = World::with_orders();
        let proxy = Proxy::to(world.server.address).expect("a proxy");
        let answer = Seen::Bytes(b"HTTP/1.1 201".to_vec());
        proxy.cut_when(Trap { from: Side::Server, when: answer, deliver: false });
        world.go_to(format!("http://{}", proxy.address()));
        let ended = world.run(&[&["publish", "orders", "1"], option].concat());
        // The trap is noted after the connection is cut, so the command may be the first to know.
        let lost = proxy.wait_until_sprung(Duration::from_secs(10));
        assert!(lost, "the answer was not lost: {}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(code), "{option:?}: {}", ended.stderr);
        assert!((ended.stdout + &ended.stderr).contains(words), "{option:?}");
        assert_eq!(jobs(&world).len(), 1, "{option:?}");
    }
}

#[test]
fn a_file_is_published_line_by_line() {
    let world = World::with_orders();
    let lines: String =
        (0..1200).map(|n| format!("{{\"payload\":{n},\"idempotencyKey\":\"k-{n}\"}}\n")).collect();
    let file = world.file("many.jsonl", &lines);
    let first = world.good(&["publish", "orders", "--batch", &file]);
    assert_eq!(first, "1,200 lines: 1,200 published, 0 were published before, 0 refused\n");
    let again = world.good(&["publish", "orders", "--batch", &file]);
    assert_eq!(again, "1,200 lines: 0 published, 1,200 were published before, 0 refused\n");
    let mixed =
        "{\"payload\":1,\"idempotencyKey\":\"k-1\"}\n\n{\"payload\":2,\"priority\":101}\n{\"payload\":3}\n";
    let mixed_file = world.file("mixed.jsonl", mixed);
    let ended = world.run(&["publish", "orders", "--batch", &mixed_file]);
    let expected = "line 3: priority: must be -100 to 100, got 101 (invalid)\n3 lines: 1 published, 1 were published before, 1 refused\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), expected), "{}", ended.stderr);
    let results = world.run_with(&["publish", "orders", "--batch", "-", "--generate-key", "--json"], mixed);
    let results: Vec<Value> =
        results.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), 3, "{results:?}");
    assert_eq!((&results[0]["deduplicated"], &results[1]["code"]), (&true.into(), &"invalid".into()));
    let made = world.good_json(&["job", results[2]["id"].as_str().unwrap()]);
    assert!(made["idempotencyKey"].as_str().is_some_and(|key| key.starts_with("gen-")), "{made}");
}

#[test]
fn nothing_is_published_of_what_is_wrong() {
    let world = World::with_orders();
    let broken = world.file("broken.jsonl", "{\"payload\":1}\n{\"payload\"\n");
    let without = world.file("without.jsonl", "{\"payload\":1}\n{\"idempotencyKey\":\"k\"}\n");
    let empty = world.file("empty.jsonl", "\n");
    for (args, words) in [
        (vec!["publish", "orders", "hello"], "a text needs quotes of its own"),
        (vec!["publish", "orders", "@/nowhere/at-all"], "cannot read /nowhere/at-all"),
        (vec!["publish", "orders", "--batch", &broken], "line 2: not a JSON object"),
        (vec!["publish", "orders", "--batch", &without], "line 2: there is no payload"),
        (vec!["publish", "orders", "--batch", &empty], "nothing to publish"),
    ] {
        assert_failed(&world.run(&args), 2, words, &format!("{args:?}"));
    }
    world.api(
        "PUT",
        "/v1/queues/orders",
        &json!({ "requireKey": true, "onCollision": "reject", "payloadLimit": 9 }),
    );
    assert!(world.good(&["publish", "orders", "1", "--key", "k"]).contains("was published"));
    for (args, words) in [
        (vec!["publish", "orders", "1"], "key_required"),
        (vec!["publish", "orders", "2", "--key", "k"], "key_collision"),
        (vec!["publish", "orders", "\"0123456789\"", "--key", "l"], "payload_too_large"),
        (vec!["publish", "orders", "1", "--key", "l", "--run-at", "soon"], "runAt"),
        (vec!["publish", "or/ders", "1"], "invalid"),
    ] {
        assert_failed(&world.run(&args), 6, words, &format!("{args:?}"));
    }
    assert_failed(&world.run(&["publish", "none", "1"]), 5, "`semel queue list`", "an unknown queue");
    assert_eq!(jobs(&world).len(), 1);
}
