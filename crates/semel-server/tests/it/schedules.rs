//! Schedules: each tick makes one job under its own key, whatever happens to the server or its clock.

use serde_json::{Value, json};

use crate::kit::{Backend, World, eventually, scenarios, secs};

scenarios!(
    each_tick_publishes_under_its_own_key,
    a_tick_never_comes_early,
    a_schedule_is_read_in_its_zone,
    missed_ticks_are_not_made_up_for_one_by_one,
    a_schedule_may_be_changed_and_taken_away,
    a_schedule_outlives_a_queue_that_comes_back,
    bad_schedules_are_refused,
);

async fn put(world: &World, name: &str, cron: &str) -> Value {
    let body = json!({ "queue": "q", "cron": cron, "payload": { "report": name } });
    world.client.put(&format!("/v1/schedules/{name}"), body).await.expect(201)
}

async fn schedule(world: &World, name: &str) -> Value {
    world.client.get(&format!("/v1/schedules/{name}")).await.expect(200)
}

/// Waits until the schedule stands at this tick.
async fn until_next(world: &World, name: &str, tick: &str) {
    eventually(async || (schedule(world, name).await["nextAt"] == tick).then_some(())).await;
}

/// The keys of all jobs, oldest first.
async fn keys(world: &World) -> Vec<String> {
    let page = world.client.get("/v1/jobs?queue=q&limit=1000").await.expect(200);
    let mut keys: Vec<_> = page["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["idempotencyKey"].as_str().unwrap().to_owned())
        .collect();
    keys.reverse();
    keys
}

async fn each_tick_publishes_under_its_own_key(world: &World) {
    world.queue("q", json!({})).await;
    let made = put(world, "hourly", "0 * * * *").await;
    assert_eq!(
        made["nextTicks"],
        json!(["2026-11-15T13:00:00.000Z", "2026-11-15T14:00:00.000Z", "2026-11-15T15:00:00.000Z"])
    );
    for next in ["2026-11-15T14:00:00.000Z", "2026-11-15T15:00:00.000Z"] {
        world.advance(secs(3600));
        until_next(world, "hourly", next).await;
    }
    assert_eq!(
        keys(world).await,
        ["schedule:hourly:2026-11-15T13:00:00Z", "schedule:hourly:2026-11-15T14:00:00Z"]
    );
    let jobs = world.lease("q", 10).await;
    assert!(jobs.iter().all(|job| job["payload"] == json!({ "report": "hourly" })), "{jobs:?}");
    assert_eq!(jobs.len(), 2);
}

async fn a_tick_never_comes_early(world: &World) {
    world.queue("q", json!({})).await;
    put(world, "hourly", "0 * * * *").await;
    put(world, "minutely", "* * * * *").await;
    world.advance(secs(3599));
    until_next(world, "minutely", "2026-11-15T13:00:00.000Z").await;
    assert!(keys(world).await.iter().all(|key| !key.starts_with("schedule:hourly:")));
    world.advance(secs(1));
    until_next(world, "hourly", "2026-11-15T14:00:00.000Z").await;
    assert_eq!(keys(world).await.iter().filter(|key| key.starts_with("schedule:hourly:")).count(), 1);
}

async fn a_schedule_is_read_in_its_zone(world: &World) {
    world.queue("q", json!({})).await;
    let body = json!({ "queue": "q", "cron": "30 9 * * *", "zone": "America/New_York", "payload": null });
    let made = world.client.put("/v1/schedules/morning", body).await.expect(201);
    assert_eq!(
        (&made["zone"], &made["nextAt"]),
        (&json!("America/New_York"), &json!("2026-11-15T14:30:00.000Z"))
    );
    world.advance(secs(9000));
    until_next(world, "morning", "2026-11-16T14:30:00.000Z").await;
    assert_eq!(keys(world).await, ["schedule:morning:2026-11-15T14:30:00Z"]);
}

async fn missed_ticks_are_not_made_up_for_one_by_one(world: &World) {
    world.queue("q", json!({})).await;
    put(world, "hourly", "0 * * * *").await;
    world.advance(secs(24 * 3600 + 600));
    until_next(world, "hourly", "2026-11-16T13:00:00.000Z").await;
    assert_eq!(keys(world).await, ["schedule:hourly:2026-11-16T12:00:00Z"], "the latest of them, once");
}

async fn a_schedule_may_be_changed_and_taken_away(world: &World) {
    world.queue("q", json!({})).await;
    put(world, "s", "0 * * * *").await;
    let daily = json!({ "queue": "q", "cron": "@daily", "payload": 2 });
    let changed = world.client.put("/v1/schedules/s", daily).await.expect(200);
    assert_eq!(changed["nextAt"], "2026-11-16T00:00:00.000Z");
    put(world, "witness", "0 * * * *").await;
    assert_eq!(world.client.get("/v1/schedules").await.expect(200)["schedules"].as_array().unwrap().len(), 2);
    assert_eq!(world.client.delete("/v1/schedules/s").await.status, 204);
    world.client.get("/v1/schedules/s").await.problem(404, "record_not_found");
    world.client.delete("/v1/schedules/s").await.problem(404, "record_not_found");
    world.advance(secs(24 * 3600));
    until_next(world, "witness", "2026-11-16T13:00:00.000Z").await;
    assert!(keys(world).await.iter().all(|key| key.starts_with("schedule:witness:")));
}

async fn a_schedule_outlives_a_queue_that_comes_back(world: &World) {
    world.queue("q", json!({})).await;
    put(world, "hourly", "0 * * * *").await;
    assert_eq!(world.client.delete("/v1/queues/q").await.status, 204);
    world.advance(secs(3600));
    world.queue("q", json!({})).await;
    world.advance(secs(60));
    until_next(world, "hourly", "2026-11-15T14:00:00.000Z").await;
    assert_eq!(keys(world).await, ["schedule:hourly:2026-11-15T13:00:00Z"]);
}

async fn bad_schedules_are_refused(world: &World) {
    world.queue("q", json!({})).await;
    let good = json!({ "queue": "q", "cron": "@daily", "payload": 1 });
    for (field, value) in [
        ("cron", json!("* * 31 2 *")),
        ("cron", json!("*/0 * * * *")),
        ("cron", json!("")),
        ("cron", json!("every day")),
        ("cron", json!("60 * * * *")),
        ("cron", json!("* * * *")),
        ("cron", json!("* * * * * * *")),
        ("cron", json!("* ".repeat(5000))),
        ("cron", json!(7)),
        ("zone", json!("Mars/Olympus")),
        ("zone", json!("")),
        ("zone", json!("../../etc/passwd")),
        ("queue", json!("../q")),
        ("colour", json!("red")),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let problem = world.client.put("/v1/schedules/s", body.clone()).await.problem(400, "invalid");
        let named: Vec<_> =
            problem["violations"].as_array().unwrap().iter().map(|v| v["field"].as_str().unwrap()).collect();
        assert_eq!(named, [field], "{:.200}", body.to_string());
    }
    let problem = world.client.put("/v1/schedules/s", json!({})).await.problem(400, "invalid");
    assert_eq!(problem["violations"].as_array().unwrap().len(), 3, "every field that is missing is named");
    let unreadable = r#"{"queue": "q", "cron": "@daily", "payload": 1e999}"#;
    let answer = world.client.send(http::Method::PUT, "/v1/schedules/s", &[], Some(unreadable.into())).await;
    assert_eq!(answer.problem(400, "invalid")["violations"][0]["field"], "payload");
    let mut nowhere = good;
    nowhere["queue"] = json!("none");
    world.client.put("/v1/schedules/s", nowhere).await.problem(404, "queue_not_found");
    for name in ["%00", "a%0ab", &"s".repeat(256)] {
        world.client.put(&format!("/v1/schedules/{name}"), json!({})).await.problem(400, "invalid");
    }
    assert_eq!(world.client.get("/v1/schedules").await.expect(200), json!({ "schedules": [] }));
}

/// Only a store that outlives its server can tell.
mod restarted {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn embedded() {
        no_tick_comes_twice_when_the_server_starts_again(Backend::Embedded).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres() {
        no_tick_comes_twice_when_the_server_starts_again(Backend::Postgres).await;
    }
}

async fn no_tick_comes_twice_when_the_server_starts_again(backend: Backend) {
    let world = World::start(backend).await;
    world.queue("q", json!({})).await;
    put(&world, "hourly", "0 * * * *").await;
    world.advance(secs(3600));
    until_next(&world, "hourly", "2026-11-15T14:00:00.000Z").await;
    let world = world.restart(secs(1800)).await;
    world.advance(secs(1));
    put(&world, "witness", "31 13 * * *").await;
    world.advance(secs(60));
    until_next(&world, "witness", "2026-11-16T13:31:00.000Z").await;
    let hourly = async |world: &World| {
        let mut keys = keys(world).await;
        keys.retain(|key| key.starts_with("schedule:hourly:"));
        keys
    };
    assert_eq!(hourly(&world).await, ["schedule:hourly:2026-11-15T13:00:00Z"], "nothing was due");
    let world = world.restart(secs(5 * 3600)).await;
    until_next(&world, "hourly", "2026-11-15T19:00:00.000Z").await;
    let expected = ["schedule:hourly:2026-11-15T13:00:00Z", "schedule:hourly:2026-11-15T18:00:00Z"];
    assert_eq!(hourly(&world).await, expected, "the latest tick it was away for, once");
    world.end().await;
}
