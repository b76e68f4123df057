//! `semel dead` and `semel replay`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{World, assert_failed, steady};

/// A server with dead letters in `orders`, oldest first.
fn with_dead(reasons: &[&str]) -> (World, Vec<String>) {
    let world = World::with_orders();
    let ids = reasons.iter().enumerate().map(|(n, reason)| {
        world.publish(&format!("order-{n}"), &json!(n));
        world.work("nack", &json!({ "retryable": false, "reason": reason }))
    });
    let ids = ids.collect();
    (world, ids)
}

fn dead(world: &World) -> u64 {
    let queue = world.api("GET", "/v1/queues/orders", &Value::Null);
    queue["counts"]["dead"].as_u64().expect("a count")
}

#[test]
fn dead_letters_are_counted_listed_grouped_and_shown() {
    let (world, ids) = with_dead(&["card 17 declined", "card 4 declined", "no such customer"]);
    let overview = world.run(&["dead"]);
    assert_eq!((overview.code, steady(&overview.stdout).as_str()), (Some(1), "queue dead\norders 3"));
    assert_eq!(world.run(&["dead", "--json"]).json(), json!({ "dead": { "orders": 3 } }));
    let groups = world.run(&["dead", "groups", "orders"]);
    let expected = "2 x card N declined
died TIME to TIME; such as JOB
effects: 0 applied, 0 not applied, 2 unknown

1 x no such customer
died TIME to TIME; such as JOB
effects: 0 applied, 0 not applied, 1 unknown";
    assert_eq!((groups.code, steady(&groups.stdout).as_str()), (Some(1), expected));
    let listed = world.run(&["dead", "list", "orders", "--limit", "1"]);
    let expected = "job attempts died key error\nJOB 1/10 TIME order-2 no such customer";
    assert_eq!((listed.code, steady(&listed.stdout).as_str()), (Some(1), expected));
    let shown = world.run(&["dead", "show", &ids[0]]);
    assert_eq!(shown.code, Some(1));
    assert!(steady(&shown.stdout).contains("last error card 17 declined"), "{}", shown.stdout);
    let well = World::with_orders();
    for args in [&["dead"][..], &["dead", "groups", "orders"], &["dead", "list", "orders"]] {
        assert_eq!(well.good(args), "", "{args:?}");
    }
}

#[test]
fn one_is_replayed_and_all_are_purged() {
    let (world, ids) = with_dead(&["a", "b", "c"]);
    assert_eq!(steady(&world.good(&["replay", &ids[0]])), "JOB is pending again");
    assert_failed(&world.run(&["replay", &ids[0]]), 6, "wrong_state", "it is alive");
    let some = world.run(&["replay", &ids[0], &ids[1]]);
    assert_eq!((some.code, steady(&some.stdout).as_str()), (Some(1), "JOB is pending again"));
    assert!(some.stderr.contains("wrong_state"), "{}", some.stderr);
    assert_failed(&world.run(&["dead", "purge", "orders"]), 2, "add --yes", "nobody can be asked");
    assert_eq!(dead(&world), 1);
    let alive = world.run(&["dead", "purge", "orders", &ids[0], "--yes"]);
    assert_failed(&alive, 6, "wrong_state", "it is alive");
    let mixed = world.run(&["dead", "purge", "orders", &ids[0], &ids[2], "--yes"]);
    assert_eq!(mixed.code, Some(1), "one is alive: {}", mixed.stderr);
    assert!(mixed.stderr.contains(&format!("{} was purged", ids[2])), "{}", mixed.stderr);
    world.work("nack", &json!({ "retryable": false }));
    assert_eq!(world.good(&["dead", "purge", "orders", "--yes"]), "1 dead letters of orders were purged\n");
    assert_eq!(
        world.good(&["replay", "--queue", "orders", "--preflight", "--error", "none"]).lines().count(),
        3
    );
    let left = world.good_json(&["jobs", "--queue", "orders", "--status", "dead"]);
    assert!(left["jobs"].as_array().unwrap().iter().all(|job| job["payload"].is_null()), "{left}");
}

#[test]
fn a_queue_is_replayed_by_a_task() {
    let (world, _) = with_dead(&["card 1 declined", "card 2 declined", "other"]);
    let only = ["replay", "--queue", "orders", "--error", "card N declined", "--effect", "unknown"];
    let expected = "TASK of orders: done
2 would be replayed, of 3 looked at (dry run)
their effects: 0 applied, 0 not applied, 2 unknown";
    assert_eq!(steady(&world.good(&[&only[..], &["--dry-run"]].concat())), expected);
    assert_eq!(dead(&world), 3, "a dry run");
    let looked = world.run(&[&only[..], &["--preflight"]].concat());
    assert_eq!((looked.code, steady(&looked.stdout).as_str()), (Some(2), expected), "{}", looked.stderr);
    assert!(looked.stderr.ends_with("add --yes if that is what you want\n"), "{}", looked.stderr);
    let done = world.good_json(&[&only[..], &["--rate", "100"]].concat());
    assert_eq!((&done["state"], &done["counts"]["replayed"]), (&json!("done"), &json!(2)), "{done}");
    assert_eq!(dead(&world), 1);
    assert_failed(&world.run(&["replay", "--all"]), 2, "add --yes", "nobody can be asked");
    let begun = world.good(&["replay", "--queue", "orders", "--dry-run", "--detach"]);
    let counted = world.good_json(&["replay", "status", begun.trim(), "--follow"]);
    assert_eq!((&counted["dryRun"], &counted["counts"]["matched"]), (&json!(true), &json!(1)), "{counted}");
    assert!(world.good(&["replay", "--all", "--yes"]).contains("1 replayed, 0 refused"));
    assert_eq!(dead(&world), 0);
    let listed = steady(&world.good(&["replay", "status"]));
    assert!(
        listed.starts_with("task state queue asked for matched replayed refused\nTASK done orders"),
        "{listed}"
    );
    let id = done["id"].as_str().unwrap();
    assert_eq!(world.good_json(&["replay", "status", id]), done);
    assert_eq!(world.good_json(&["replay", "status", id, "--follow"]), done);
}

#[test]
fn ctrl_c_ends_the_command_and_not_the_task() {
    let (world, _) = with_dead(&["a", "b", "c", "d"]);
    let mut command = world.command(&["replay", "--queue", "orders", "--rate", "1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("it says what it does");
    assert_eq!(line, "replaying orders: 4\n");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::INT).expect("it runs");
    line.clear();
    stderr.read_line(&mut line).expect("it says what to do");
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "{line}");
    let id =
        line.split_once("semel replay cancel ").and_then(|(_, rest)| rest.split('`').next()).expect("how");
    assert_eq!(world.good_json(&["replay", "status", id])["state"], "running");
    assert!(steady(&world.good(&["replay", "cancel", id])).starts_with("TASK of orders: cancelled"));
    let followed = world.run(&["replay", "status", id, "--follow"]);
    assert_eq!(followed.code, Some(1), "it was called off: {}", followed.stdout);
    assert!(dead(&world) > 0, "it was called off in time");
}
