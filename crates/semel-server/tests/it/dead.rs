//! Dead letters: grouped by what they died of, replayed with the same id and key, purged, archived before they go.

use std::fs;
use std::path::Path;

use axum::response::IntoResponse;
use http::StatusCode;
use semel_server::service::{AuthMode, Options};
use serde_json::{Value, json};

use crate::kit::{Worker, World, eventually, scenarios, secs};

scenarios!(
    a_dead_letter_keeps_its_payload_and_history,
    dead_letters_are_grouped_by_error,
    what_never_reached_its_worker_had_no_effect,
    what_failed_after_its_effect_is_known_to_have_had_it,
    one_is_replayed_with_the_same_id_and_key,
    what_is_not_dead_is_not_replayed,
    all_are_replayed_and_what_dies_again_is_left,
    some_are_replayed_by_a_filter,
    a_dry_run_only_counts,
    a_replay_keeps_to_its_rate,
    a_replay_that_is_called_off_stops,
    a_replay_that_makes_no_sense_is_refused,
    one_is_purged_and_its_key_holds,
    all_are_purged_when_the_queue_is_named_twice,
    dead_letters_go_when_their_retention_is_over,
);

mod cold {
    use super::*;

    scenarios!(with archiving: dead_letters_are_archived_and_only_then_go);

    fn archiving(home: &Path) -> Options {
        Options { auth: AuthMode::Open, archive: Some(home.join("cold")), ..Options::default() }
    }
}

/// Publishes a job and has it die of `error`.
async fn dead(world: &World, key: &str, error: &str) -> String {
    let made =
        world.publish("q", json!({ "payload": { "for": key }, "idempotencyKey": key, "group": key })).await;
    kill(world, error).await;
    made["id"].as_str().unwrap().to_owned()
}

async fn kill(world: &World, error: &str) {
    let leased = world.lease_one("q").await;
    let nack = json!({ "retryable": false, "reason": error });
    world.settle("nack", &leased, nack).await.expect(200);
}

async fn replay(world: &World, body: Value) -> Value {
    let answer = world.client.post("/v1/queues/q/dead/replay", body).await;
    let place = answer.headers["location"].to_str().unwrap().to_owned();
    let task = answer.expect(202);
    assert_eq!(place, format!("/v1/replays/{}", task["id"].as_str().unwrap()));
    task
}

async fn task(world: &World, task: &Value) -> Value {
    world.client.get(&format!("/v1/replays/{}", task["id"].as_str().unwrap())).await.expect(200)
}

/// Lets the task run until it has ended.
async fn finish(world: &World, begun: &Value) -> Value {
    world.advance(secs(1));
    eventually(async || Some(task(world, begun).await).filter(|task| task["state"] != "running")).await
}

async fn a_dead_letter_keeps_its_payload_and_history(world: &World) {
    world.queue("q", json!({ "maxAttempts": 2, "retry": { "base": 1, "jitter": "none" } })).await;
    let id = world.publish("q", json!({ "payload": { "order": 9482 }, "idempotencyKey": "k" })).await["id"]
        .clone();
    for reason in ["first", "second"] {
        let leased = world.lease_one("q").await;
        world.settle("nack", &leased, json!({ "reason": reason })).await.expect(200);
        world.advance(secs(1));
    }
    let letters = world.client.get("/v1/queues/q/dead").await.expect(200);
    let letter = &letters["jobs"][0];
    assert_eq!(
        (&letter["id"], &letter["status"], &letter["payload"]),
        (&id, &json!("dead"), &json!({ "order": 9482 }))
    );
    let errors: Vec<_> =
        letter["history"].as_array().unwrap().iter().map(|entry| entry["error"].clone()).collect();
    assert_eq!(json!(errors), json!(["first", "second"]));
    assert_eq!((&letter["lastError"], &letters["nextCursor"]), (&json!("second"), &Value::Null));
}

async fn dead_letters_are_grouped_by_error(world: &World) {
    world.queue("q", json!({})).await;
    dead(world, "a", "customer 17 not found").await;
    world.advance(secs(10));
    let newest = dead(world, "b", "customer 4711 not found").await;
    dead(world, "c", "card declined").await;
    let answer = world.client.get("/v1/queues/q/dead?groupBy=error").await.expect(200);
    assert_eq!((&answer["complete"], &answer["lookedAt"]), (&json!(true), &json!(3)));
    let groups = answer["groups"].as_array().unwrap();
    assert_eq!(
        groups[0],
        json!({
            "error": "customer N not found", "count": 2, "example": newest,
            "firstAt": "2026-11-15T12:00:00.000Z", "lastAt": "2026-11-15T12:00:10.000Z",
            "preflight": { "applied": 0, "notApplied": 0, "unknown": 2 },
        })
    );
    assert_eq!(
        (groups.len(), &groups[1]["error"], &groups[1]["count"]),
        (2, &json!("card declined"), &json!(1))
    );
}

async fn what_never_reached_its_worker_had_no_effect(world: &World) {
    // Nobody listens on a port that was just given back.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", free.local_addr().unwrap());
    drop(free);
    world.queue("q", json!({ "delivery": { "type": "push", "url": url }, "maxAttempts": 1 })).await;
    let made = world.publish("q", json!({ "payload": 1 })).await;
    world.until(made["id"].as_str().unwrap(), "dead").await;
    let begun = replay(world, json!({ "dryRun": true, "filter": { "effects": ["notApplied"] } })).await;
    let counts = finish(world, &begun).await["counts"].clone();
    assert_eq!(
        (&counts["matched"], &counts["notApplied"], &counts["unknown"]),
        (&json!(1), &json!(1), &json!(0))
    );
    let begun =
        replay(world, json!({ "dryRun": true, "filter": { "effects": ["unknown", "applied"] } })).await;
    assert_eq!(finish(world, &begun).await["counts"]["matched"], 0);
}

async fn what_failed_after_its_effect_is_known_to_have_had_it(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    let effect = json!({ "outcome": "applied", "key": "charge-1" });
    let nack = json!({ "retryable": false, "reason": "the mail could not be sent", "effect": effect });
    world.settle("nack", &leased, nack).await.expect(200);
    let mut worker = Worker::start().await;
    worker.answers(|_| (StatusCode::GONE, [("semel-effect", "replayed")]).into_response());
    world.queue("pushed", json!({ "delivery": { "type": "push", "url": worker.url() } })).await;
    let pushed = world.publish("pushed", json!({ "payload": 1 })).await;
    worker.call().await;
    let pushed = world.until(pushed["id"].as_str().unwrap(), "dead").await;
    assert_eq!(pushed["history"][0]["effect"]["outcome"], "replayed");
    for queue in ["q", "pushed"] {
        let path = format!("/v1/queues/{queue}/dead?groupBy=error");
        let groups = world.client.get(&path).await.expect(200)["groups"].clone();
        assert_eq!(groups[0]["preflight"], json!({ "applied": 1, "notApplied": 0, "unknown": 0 }), "{queue}");
    }
}

async fn one_is_replayed_with_the_same_id_and_key(world: &World) {
    world.queue("q", json!({})).await;
    let id = dead(world, "k", "boom").await;
    world.advance(secs(60));
    let job = world.client.post(&format!("/v1/jobs/{id}/replay"), json!({})).await.expect(200);
    assert_eq!((&job["id"], &job["status"], &job["attempts"]), (&json!(id), &json!("pending"), &json!(0)));
    assert_eq!((&job["replays"], &job["replayedAt"]), (&json!(1), &json!("2026-11-15T12:01:00.000Z")));
    let again = world
        .client
        .post("/v1/queues/q/jobs", json!({ "payload": { "for": "k" }, "idempotencyKey": "k" }))
        .await;
    assert_eq!(again.expect(200)["id"], id, "the key is still its own");
    let leased = world.lease_one("q").await;
    assert_eq!(
        (&leased["id"], &leased["idempotencyKey"], &leased["payload"]),
        (&json!(id), &json!("k"), &json!({ "for": "k" }))
    );
    world.settle("ack", &leased, json!({})).await.expect(200);
    let done = world.job(&id).await;
    assert_eq!((&done["status"], done["history"].as_array().unwrap().len()), (&json!("completed"), 2));
}

async fn what_is_not_dead_is_not_replayed(world: &World) {
    world.queue("q", json!({})).await;
    let id = world.publish("q", json!({ "payload": 1 })).await["id"].clone();
    let path = format!("/v1/jobs/{}/replay", id.as_str().unwrap());
    world.client.post(&path, json!({})).await.problem(409, "wrong_state");
    let leased = world.lease_one("q").await;
    world.client.post(&path, json!({})).await.problem(409, "wrong_state");
    world.settle("ack", &leased, json!({})).await.expect(200);
    world.client.post(&path, json!({})).await.problem(409, "wrong_state");
}

async fn all_are_replayed_and_what_dies_again_is_left(world: &World) {
    world.queue("q", json!({})).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(dead(world, &format!("k{n}"), "boom").await);
    }
    world.advance(secs(60));
    let begun = replay(world, json!({})).await;
    assert_eq!(
        (&begun["state"], &begun["queue"], &begun["rate"]),
        (&json!("running"), &json!("q"), &Value::Null)
    );
    let done = finish(world, &begun).await;
    assert_eq!(done["state"], "done");
    let counts = json!({ "lookedAt": 5, "matched": 5, "replayed": 5, "refused": 0, "applied": 0, "notApplied": 0, "unknown": 5 });
    assert_eq!(done["counts"], counts);
    assert!(done["finishedAt"].is_string());
    kill(world, "boom again").await;
    world.advance(secs(60));
    assert_eq!(task(world, &begun).await["counts"], counts, "what died after it is not replayed by it");
    let leased = world.lease("q", 10).await;
    assert_eq!(leased.len(), 4);
    assert!(leased.iter().all(|job| ids.iter().any(|id| job["id"] == *id)));
    let listed = world.client.get("/v1/replays").await.expect(200);
    assert_eq!(listed["replays"][0]["id"], begun["id"]);
}

async fn some_are_replayed_by_a_filter(world: &World) {
    world.queue("q", json!({})).await;
    let first = dead(world, "a", "customer 17 not found").await;
    world.advance(secs(60));
    let second = dead(world, "b", "customer 18 not found").await;
    let third = dead(world, "c", "card declined").await;
    for (filter, expected) in [
        (json!({ "error": "customer N not found", "to": "2026-11-15T12:01:00Z" }), &first),
        (json!({ "error": "customer N not found" }), &second),
        (json!({ "group": "c", "from": "2026-11-15T12:01:00Z" }), &third),
    ] {
        let begun = replay(world, json!({ "filter": filter })).await;
        assert_eq!(finish(world, &begun).await["counts"]["replayed"], 1, "{filter}");
        let leased = world.lease_one("q").await;
        assert_eq!(leased["id"], **expected, "{filter}");
        world.settle("ack", &leased, json!({})).await.expect(200);
    }
}

async fn a_dry_run_only_counts(world: &World) {
    world.queue("q", json!({})).await;
    let id = dead(world, "k", "boom").await;
    let begun = replay(world, json!({ "dryRun": true })).await;
    let done = finish(world, &begun).await;
    assert_eq!((&done["counts"]["matched"], &done["counts"]["replayed"]), (&json!(1), &json!(0)));
    assert_eq!(done["counts"]["unknown"], 1, "the preflight says what is known of the effects");
    assert_eq!(world.job(&id).await["status"], "dead");
}

async fn a_replay_keeps_to_its_rate(world: &World) {
    world.queue("q", json!({})).await;
    for n in 0..6 {
        dead(world, &format!("k{n}"), "boom").await;
    }
    let begun = replay(world, json!({ "rate": 2 })).await;
    for replayed in [2, 4, 6] {
        let count = async || {
            Some(task(world, &begun).await["counts"]["replayed"].clone()).filter(|count| *count == replayed)
        };
        eventually(count).await;
        let pending = world.look_at("q").await["counts"]["pending"].clone();
        assert_eq!(pending, replayed, "no more than two a second");
        world.advance(secs(1));
    }
    assert_eq!(finish(world, &begun).await["state"], "done");
}

async fn a_replay_that_is_called_off_stops(world: &World) {
    world.queue("q", json!({})).await;
    for n in 0..3 {
        dead(world, &format!("k{n}"), "boom").await;
    }
    let begun = replay(world, json!({ "rate": 1 })).await;
    eventually(async || Some(task(world, &begun).await).filter(|task| task["counts"]["replayed"] == 1)).await;
    let path = format!("/v1/replays/{}", begun["id"].as_str().unwrap());
    let cancelled = world.client.delete(&path).await.expect(200);
    assert_eq!(cancelled["state"], "cancelled");
    world.advance(secs(60));
    // Another task runs to its end meanwhile, so the one that was called off had its turn too.
    let other = replay(world, json!({ "dryRun": true })).await;
    assert_eq!(finish(world, &other).await["counts"]["matched"], 2);
    let after = task(world, &begun).await;
    assert_eq!((&after["state"], &after["counts"]["replayed"]), (&json!("cancelled"), &json!(1)));
    assert_eq!(world.lease("q", 10).await.len(), 1, "what was replayed stays replayed");
}

async fn a_replay_that_makes_no_sense_is_refused(world: &World) {
    world.queue("q", json!({})).await;
    for (body, field) in [
        (json!({ "rate": 0 }), "rate"),
        (json!({ "rate": -1 }), "rate"),
        (json!({ "filter": { "colour": "red" } }), "filter"),
        (json!({ "filter": { "effects": ["maybe"] } }), "filter"),
        (
            json!({ "filter": { "from": "2026-11-16T00:00:00Z", "to": "2026-11-15T00:00:00Z" } }),
            "filter.from",
        ),
        (json!({ "filter": { "group": "" } }), "filter.group"),
        (json!({ "dryrun": true }), "dryrun"),
    ] {
        let problem =
            world.client.post("/v1/queues/q/dead/replay", body.clone()).await.problem(400, "invalid");
        assert_eq!(problem["violations"][0]["field"], field, "{body}");
    }
    assert_eq!(world.client.get("/v1/replays").await.expect(200), json!({ "replays": [] }));
    world.client.get("/v1/replays/none").await.problem(404, "record_not_found");
    world.client.delete("/v1/replays/none").await.problem(404, "record_not_found");
}

async fn one_is_purged_and_its_key_holds(world: &World) {
    world.queue("q", json!({})).await;
    let id = dead(world, "k", "boom").await;
    let other = dead(world, "l", "boom").await;
    let path = format!("/v1/queues/q/dead/{id}");
    assert_eq!(world.client.delete(&path).await.status, 204);
    let letters = world.client.get("/v1/queues/q/dead?groupBy=error").await.expect(200);
    let listed = world.client.get("/v1/queues/q/dead").await.expect(200);
    let whole: Vec<_> =
        listed["jobs"].as_array().unwrap().iter().filter(|job| !job["payload"].is_null()).collect();
    assert_eq!((whole.len(), &whole[0]["id"]), (1, &json!(other)), "{letters}");
    let again = world
        .client
        .post("/v1/queues/q/jobs", json!({ "payload": { "for": "k" }, "idempotencyKey": "k" }))
        .await;
    assert_eq!(again.expect(200)["id"], id, "the key holds until its window ends");
    world.client.post(&format!("/v1/jobs/{id}/replay"), json!({})).await.problem(410, "payload_gone");
    let pending = world.publish("q", json!({ "payload": 1 })).await;
    let path = format!("/v1/queues/q/dead/{}", pending["id"].as_str().unwrap());
    world.client.delete(&path).await.problem(409, "wrong_state");
}

async fn all_are_purged_when_the_queue_is_named_twice(world: &World) {
    world.queue("q", json!({ "window": 0 })).await;
    for n in 0..3 {
        dead(world, &format!("k{n}"), "boom").await;
    }
    world.publish("q", json!({ "payload": 1 })).await;
    world.client.delete("/v1/queues/q/dead").await.problem(400, "invalid");
    let purged = world.client.delete("/v1/queues/q/dead?confirm=q").await.expect(200);
    assert_eq!(purged, json!({ "purged": 3, "complete": true, "nextCursor": null }));
    let counts = world.look_at("q").await["counts"].clone();
    assert_eq!((&counts["dead"], &counts["pending"]), (&json!(0), &json!(1)));
    assert_eq!(world.client.get("/v1/queues/q/dead").await.expect(200)["jobs"], json!([]));
}

async fn dead_letters_go_when_their_retention_is_over(world: &World) {
    world.queue("q", json!({ "window": 60, "retention": { "dead": 3600 } })).await;
    let id = dead(world, "k", "boom").await;
    world.advance(secs(3599));
    assert_eq!(world.job(&id).await["payload"], json!({ "for": "k" }));
    world.advance(secs(3600));
    let path = format!("/v1/jobs/{id}");
    eventually(async || (world.client.get(&path).await.status == 404).then_some(())).await;
}

/// What an archive has, file by file.
fn archived(dir: &Path) -> Vec<Value> {
    let mut files: Vec<_> =
        fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".jsonl.zst"));
    files.sort();
    let lines = files.iter().flat_map(|path| {
        let text = String::from_utf8(zstd::decode_all(fs::File::open(path).unwrap()).unwrap()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    });
    lines.collect()
}

async fn dead_letters_are_archived_and_only_then_go(world: &World) {
    world.queue("q", json!({ "window": 0, "retention": { "dead": 3600, "archive": true } })).await;
    let id = dead(world, "k", "boom").await;
    let shown = world.job(&id).await;
    let dir = world.home.path().join("cold/q");
    world.advance(secs(3599));
    let young = dead(world, "young", "boom").await;
    assert!(archived(&dir).is_empty(), "its retention is not over");
    world.advance(secs(601));
    let path = format!("/v1/jobs/{id}");
    eventually(async || (world.client.get(&path).await.status == 404).then_some(())).await;
    assert_eq!(archived(&dir), [shown], "everything that a job shows is in the file");
    assert!(dir.join("2026-11-15-1.jsonl.zst").exists());
    assert_eq!(world.job(&young).await["status"], "dead");
}
