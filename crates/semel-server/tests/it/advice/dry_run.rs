//! The dedupe dry run, compared with what looking at the jobs one by one gives.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{publish, settle};
use crate::kit::{World, scenarios, secs};

scenarios!(
    a_dry_run_says_what_looking_at_every_job_says,
    a_dry_run_knows_what_is_no_longer_kept,
    a_dry_run_that_makes_no_sense_is_refused,
);

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn ask(world: &World, body: Value) -> Value {
    world.client.post("/v1/queues/q/dedupe-dry-run", body).await.expect(200)
}

/// Publishes jobs about few orders under keys of their own, and works some of them, as time goes by.
async fn live(world: &World, dice: &mut Dice) {
    for round in 0..12 {
        let jobs: Vec<_> = (0..dice.roll(6) + 1)
            .map(|n| {
                let order = dice.roll(5);
                let payload = match dice.roll(8) {
                    0 => json!({ "note": "no order" }),
                    1 => json!({ "order": { "id": order, "again": true } }),
                    _ => json!({ "order": { "id": order } }),
                };
                (format!("try-{round}-{n}"), payload)
            })
            .collect();
        publish(world, "q", jobs).await;
        let max = u32::try_from(dice.roll(5)).unwrap();
        if max > 0 {
            let leased = world.lease("q", max).await;
            settle(world, &leased, &json!({ "action": "ack" })).await;
        }
        world.advance(secs(dice.roll(100)));
    }
}

/// The same by going through the jobs: how many would have been suppressed, and how many of those differ.
fn by_hand(jobs: &[Value], window: i64) -> (usize, usize, usize) {
    let time =
        |value: &Value| value.as_str().map(|text| text.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    let mut holders: HashMap<String, &Value> = HashMap::new();
    let (mut suppressed, mut differ, mut without) = (0, 0, 0);
    for job in jobs {
        let Some(order) = job["payload"]["order"]["id"].as_i64() else {
            without += 1;
            continue;
        };
        let published = time(&job["createdAt"]).unwrap();
        match holders.get(&order.to_string()) {
            Some(first) if time(&first["completedAt"]).is_none_or(|end| end + window * 1000 > published) => {
                suppressed += 1;
                differ += usize::from(first["payload"] != job["payload"]);
            }
            _ => drop(holders.insert(order.to_string(), job)),
        }
    }
    (suppressed, differ, without)
}

async fn a_dry_run_says_what_looking_at_every_job_says(world: &World) {
    world.queue("q", json!({})).await;
    live(world, &mut Dice(7)).await;
    let listed = world.client.get("/v1/jobs?queue=q&limit=1000").await.expect(200);
    let mut jobs = listed["jobs"].as_array().unwrap().clone();
    jobs.reverse();
    for window in [0, 30, 90, 300, 86_400] {
        let asked = json!({ "key": "order-{payload.order.id}", "window": window });
        let run = ask(world, asked).await;
        let (suppressed, differ, without) = by_hand(&jobs, window);
        let told = (&run["wouldSuppress"], &run["wouldCollide"], &run["withoutKey"], &run["published"]);
        let expected = (&json!(suppressed), &json!(differ), &json!(without), &json!(jobs.len()));
        assert_eq!(told, expected, "{window}: {run:#}");
        assert_eq!(
            (&run["truncated"], &run["payloadGone"], &run["notes"]),
            (&json!(false), &json!(0), &json!([]))
        );
        assert!(suppressed == 0 || run["groups"][0]["samples"][0]["instead"].is_null(), "{run:#}");
    }
    let widest = ask(world, json!({ "key": "order-{payload.order.id}", "window": 86_400 })).await;
    assert!(
        widest["wouldSuppress"].as_u64().unwrap() > 5 && widest["wouldCollide"].as_u64().unwrap() > 0,
        "{widest:#}"
    );
    let second = &widest["groups"][0]["samples"][1];
    assert_eq!(second["instead"], widest["groups"][0]["samples"][0]["id"], "{second:#}");
    let keys = ask(world, json!({})).await;
    assert_eq!(
        (&keys["wouldSuppress"], &keys["window"]),
        (&json!(0), &json!(259_200)),
        "each try had its own key"
    );
    assert_eq!(keys["current"], json!({ "withKey": jobs.len(), "suppressed": 0 }));
    let after = world.client.get("/v1/jobs?queue=q&limit=1000").await.expect(200);
    assert_eq!(after, listed, "nothing has changed");
}

async fn a_dry_run_knows_what_is_no_longer_kept(world: &World) {
    world.queue("q", json!({ "retention": { "completed": 60 } })).await;
    publish(world, "q", (0..3).map(|n| (format!("old-{n}"), json!({ "order": 1 })))).await;
    publish(world, "q", [("old-0".to_owned(), json!({ "order": 1 }))]).await;
    let leased = world.lease("q", 3).await;
    settle(world, &leased, &json!({ "action": "ack" })).await;
    let id = leased[0]["id"].as_str().unwrap();
    world.advance(secs(120));
    world.until_job(id, |job| job["payload"].is_null()).await;
    for delivery in &leased[1..] {
        world.until_job(delivery["id"].as_str().unwrap(), |job| job["payload"].is_null()).await;
    }
    publish(world, "q", (0..2).map(|n| (format!("new-{n}"), json!({ "order": 2 })))).await;
    let run = ask(world, json!({ "key": "order-{payload.order}" })).await;
    let told = (&run["published"], &run["payloadGone"], &run["wouldSuppress"], &run["current"]["suppressed"]);
    assert_eq!(told, (&json!(5), &json!(3), &json!(1), &json!(1)), "{run:#}");
    let notes = run["notes"].to_string();
    assert!(notes.contains("retention.completed is 1m") && notes.contains("3 jobs are left out"), "{notes}");
    let recent = ask(world, json!({ "key": "order-{payload.order}", "over": 60 })).await;
    assert_eq!((&recent["published"], &recent["notes"]), (&json!(2), &json!([])));
    let keys = ask(world, json!({ "key": "{key}" })).await;
    assert_eq!((&keys["published"], &keys["payloadGone"]), (&json!(5), &json!(0)), "keys outlive payloads");
}

async fn a_dry_run_that_makes_no_sense_is_refused(world: &World) {
    world.queue("q", json!({})).await;
    for (body, fields) in [
        (json!({ "key": "{order}" }), vec!["key"]),
        (json!({ "key": "{payload.a", "over": 0, "window": 1e10 }), vec!["key", "window", "over"]),
        (json!({ "over": "24h" }), vec!["over"]),
        (json!({ "expression": "x" }), vec!["expression"]),
        (json!({ "key": "x".repeat(1001) }), vec!["key"]),
    ] {
        let problem =
            world.client.post("/v1/queues/q/dedupe-dry-run", body.clone()).await.problem(400, "invalid");
        let named: Vec<_> =
            problem["violations"].as_array().unwrap().iter().map(|v| v["field"].clone()).collect();
        assert_eq!(json!(named), json!(fields), "{body}");
    }
    world.client.post("/v1/queues/q/dedupe-dry-run", json!([])).await.problem(400, "invalid_json");
}
