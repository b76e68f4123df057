//! `semel doctor` and `semel dedupe` against a real server: what they print, and what scripts go by.

use serde_json::json;

use crate::remote::{World, assert_failed};
use crate::run;

/// Publishes the same work again and again, each time under a key that was drawn for it.
fn mint_keys(world: &World, times: u64) {
    for n in 0..times {
        let drawn = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        world.publish(&format!("order-17-{drawn:016x}"), &json!({ "order": { "id": 17 } }));
    }
}

#[test]
fn a_doctor_finds_nothing_and_then_what_was_planted() {
    let world = World::with_orders();
    // About the one queue, because how full this machine's disk is is another matter.
    let healthy = world.good(&["doctor", "--queue", "orders"]);
    assert!(healthy.ends_with(", queue orders: nothing to complain of\n"), "{healthy}");
    mint_keys(&world, 6);
    world.api("PUT", "/v1/queues/short", &json!({ "window": 60 }));

    let found = world.run(&["doctor"]);
    assert_eq!((found.code, found.stderr.as_str()), (Some(1), ""), "{}", found.stdout);
    let shown = found.stdout;
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    for words in [
        "warning  orders  keys_random  since ",
        "  The same payload was published under 6 different random keys within ",
        "  -> Make the key of what the work is about (order-9482), before the first try",
        "     key order-17-",
        "warning  short  window_short  since ",
        "  -> Set window to at least 230400 seconds (2d 16h), or lower what it has to cover.",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let found = world.run(&["doctor", "--queue", "short", "--json"]);
    assert_eq!(found.code, Some(1));
    let answer = found.json();
    let codes: Vec<_> = answer["findings"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, [&json!("window_short")]);
    // What is only good to know is no problem.
    world.api("PUT", "/v1/queues/short", &json!({}));
    for queue in ["orders", "short"] {
        for n in 0..4 {
            let body = json!({ "payload": { "n": n, "in": queue }, "idempotencyKey": format!("k-{n}") });
            world.api("POST", &format!("/v1/queues/{queue}/jobs"), &body);
        }
    }
    let told = world.good(&["doctor", "--queue", "short"]);
    assert!(told.contains("info  orders  keys_reused  since"), "{told}");
}

#[test]
fn a_dry_run_is_told_in_figures_and_changes_nothing() {
    let world = World::with_orders();
    mint_keys(&world, 3);
    world.publish("else", &json!({ "order": { "id": 18 } }));
    world.publish("other", &json!({ "note": "no order" }));
    let shown = world.good(&["dedupe", "orders", "--key", "order-{payload.order.id}", "--window", "72h"]);
    for words in [
        "orders with the key order-{payload.order.id}, ",
        "        5  jobs were published, 5 of them with a key\n",
        "        2  would have been answered with an earlier one (keys: 1)\n",
        "        0  of these have another payload: collisions\n",
        "        1  give no key: a placeholder has no value in them\n",
        "\norder-17: 2 of 3 jobs\n",
        "  would have been created      order-17-",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    let run = world.good_json(&["dedupe", "orders", "--over", "1h"]);
    assert_eq!((&run["published"], &run["wouldSuppress"]), (&json!(5), &json!(0)));
    let pending = world.api("GET", "/v1/queues/orders", &json!(null))["counts"]["pending"].clone();
    assert_eq!(pending, 5);
}

#[test]
fn what_cannot_be_asked_ends_with_its_code() {
    let mut world = World::with_orders();
    assert_failed(&world.run(&["doctor", "--queue", "none"]), 5, "queue_not_found", "no such queue");
    assert_failed(&world.run(&["dedupe", "none"]), 5, "queue_not_found", "no such queue");
    let refused = world.run(&["dedupe", "orders", "--key", "{order}"]);
    assert_failed(&refused, 6, "{payload.path.to.member}", "no placeholder");
    assert_failed(&world.run(&["doctor", "--store", "sqlite://x"]), 2, "postgres", "no database");
    assert_eq!(run::semel(&["dedupe", "orders", "--window", "long"]).code, Some(2));
    assert_eq!(run::semel(&["doctor", "--queue", "q", "--store", "postgres://x/y"]).code, Some(2));
    world.go_to("http://127.0.0.1:9".to_owned());
    assert_failed(&world.run(&["doctor"]), 3, "127.0.0.1:9", "nobody is there");
}
