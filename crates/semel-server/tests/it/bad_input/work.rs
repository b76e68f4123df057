//! Leases, tokens and settles.

use serde_json::{Value, json};

use super::{Case, fields, refused};
use crate::kit::{World, scenarios};

scenarios!(leases_have_limits, tokens_that_are_forged_or_of_another_job_settle_nothing, settles_are_checked,);

async fn leases_have_limits(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let bad = [
        ("leaseSeconds", json!(0)),
        ("leaseSeconds", json!(0.5)),
        ("leaseSeconds", json!(-1)),
        ("leaseSeconds", json!(100.0 * 365.0 * 86_400.0)),
        ("max", json!(0)),
        ("max", json!(257)),
        ("max", json!(1_000_000)),
        ("max", json!(-1)),
        ("wait", json!(31)),
        ("wait", json!(-1)),
        ("wait", json!("long")),
        ("count", json!(1)),
    ];
    let cases = bad
        .iter()
        .map(|(field, value)| Case::new("POST", "/v1/queues/q/lease", json!({ *field: value }).to_string()));
    for (problem, (field, value)) in refused(world, cases).await.iter().zip(&bad) {
        assert_eq!(fields(problem), [*field], "{value}");
    }
    let leased = world.lease_one("q").await;
    let path = format!("/v1/jobs/{}/extend", leased["id"].as_str().unwrap());
    for seconds in [json!(0), json!(-1), json!(100.0 * 365.0 * 86_400.0), json!("x"), Value::Null] {
        let problems =
            refused(world, [Case::new("POST", &path, json!({ "seconds": seconds }).to_string())]).await;
        assert_eq!(fields(&problems[0]), ["seconds"], "{seconds}");
    }
    assert_eq!(world.job(leased["id"].as_str().unwrap()).await["status"], "processing");
}

async fn tokens_that_are_forged_or_of_another_job_settle_nothing(world: &World) {
    world.queue("q", json!({})).await;
    for n in 0..2 {
        world.publish("q", json!({ "payload": n })).await;
    }
    let leased = world.lease("q", 2).await;
    let (mine, other) = (&leased[0], &leased[1]);
    let id = mine["id"].as_str().unwrap();
    let mut close = mine["lease"].as_str().unwrap().to_owned();
    let last = close.pop().unwrap();
    close.push(if last == '0' { '1' } else { '0' });
    let with = |lease: Value, verb: &str| {
        let body = json!({ "lease": lease, "retryAfter": 1, "seconds": 60 });
        Case::new("POST", &format!("/v1/jobs/{id}/{verb}"), body.to_string())
    };
    for verb in ["ack", "nack", "defer", "extend"] {
        refused(
            world,
            [
                with(other["lease"].clone(), verb).is(409, "stale_lease"),
                with(json!(close), verb).is(409, "stale_lease"),
                with(json!(""), verb),
                with(json!("lse_"), verb),
                with(json!("lse_'; DROP TABLE jobs; --"), verb),
                with(json!(format!("{close}{close}")), verb),
                with(mine["deliveryId"].clone(), verb),
                with(json!(7), verb),
            ],
        )
        .await;
    }
    let item = json!({ "id": id, "action": "ack", "lease": other["lease"] });
    let answer = world.client.post("/v1/settle", json!({ "items": [item] })).await.expect(200);
    assert_eq!(answer["results"][0]["code"], "stale_lease");
    world.client.post(&format!("/v1/jobs/{id}/ack"), json!({ "lease": mine["lease"] })).await.expect(200);
}

async fn settles_are_checked(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    let id = leased["id"].as_str().unwrap();
    let bad = [
        ("ack", json!({ "effect": "applied" }), "effect"),
        ("ack", json!({ "effect": { "outcome": "maybe" } }), "effect"),
        ("ack", json!({ "effect": { "outcome": "applied", "key": "k".repeat(256) } }), "effect.key"),
        ("ack", json!({ "result": "x".repeat(64 * 1024) }), "result"),
        ("ack", json!({ "colour": 1 }), "colour"),
        ("nack", json!({ "reason": "x".repeat(501) }), "reason"),
        ("nack", json!({ "retryable": "no" }), "retryable"),
        ("defer", json!({}), "retryAfter"),
        ("defer", json!({ "retryAfter": -1 }), "retryAfter"),
        ("defer", json!({ "retryAfter": 1e15 }), "retryAfter"),
        ("defer", json!({ "retryAfter": 1, "scope": "world" }), "scope"),
        ("extend", json!({}), "seconds"),
    ];
    let cases = bad
        .iter()
        .map(|(verb, body, _)| Case::new("POST", &format!("/v1/jobs/{id}/{verb}"), body.to_string()));
    for (problem, (verb, body, field)) in refused(world, cases).await.iter().zip(&bad) {
        assert_eq!(fields(problem), [*field], "{verb} {body}");
    }
    let items = |count: usize| json!({ "items": vec![json!({ "id": id, "action": "ack" }); count] });
    refused(world, [0, 1001].map(|count| Case::new("POST", "/v1/settle", items(count).to_string()))).await;
    let odd = json!({ "items": [{}, { "id": id }, { "id": id, "action": "explode" }, { "id": "none", "action": "ack" }, 1] });
    let answer = world.client.post("/v1/settle", odd).await.expect(200);
    let codes: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|result| result["code"].clone()).collect();
    assert_eq!(json!(codes), json!(["invalid", "invalid", "invalid", "invalid", "invalid_json"]));
    assert_eq!(world.job(id).await["status"], "processing");
}
