//! Settings of queues.

use serde_json::{Value, json};

use super::{Case, fields, refused};
use crate::kit::{World, scenarios};

scenarios!(settings_of_a_queue_are_checked, addresses_of_webhooks_are_checked,);

async fn settings_of_a_queue_are_checked(world: &World) {
    let push = |change: Value| {
        let mut delivery = json!({ "type": "push", "url": "https://worker.example/" });
        delivery.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({ "delivery": delivery })
    };
    let year = 365 * 86_400;
    let bad = [
        (json!({ "delivery": { "type": "pull", "leaseSeconds": 0 } }), "delivery.leaseSeconds"),
        (
            json!({ "delivery": { "type": "pull", "leaseSeconds": 100.0 * f64::from(year) } }),
            "delivery.leaseSeconds",
        ),
        (json!({ "delivery": { "type": "carrier pigeon" } }), "delivery"),
        (json!({ "delivery": { "type": "push" } }), "delivery.url"),
        (push(json!({ "timeout": 0 })), "delivery.timeout"),
        (push(json!({ "timeout": 901 })), "delivery.timeout"),
        (push(json!({ "ackTimeout": 0 })), "delivery.ackTimeout"),
        (push(json!({ "mode": "maybe" })), "delivery"),
        (push(json!({ "headers": { "x": "a\r\nb" } })), "delivery"),
        (json!({ "retry": { "factor": 0 } }), "retry.factor"),
        (json!({ "maxAttempts": 0 }), "maxAttempts"),
        (json!({ "concurrency": 0 }), "concurrency"),
        (json!({ "concurrency": -1 }), "concurrency"),
        (json!({ "rate": { "count": 0, "burst": 1 } }), "rate.count"),
        (json!({ "rate": 5 }), "rate"),
        (json!({ "groupConcurrency": 0 }), "groupConcurrency"),
        (json!({ "breaker": { "failures": 0, "cooldown": 1 } }), "breaker.failures"),
        (json!({ "window": 2 * year }), "window"),
        (json!({ "window": "72h" }), "window"),
        (json!({ "keyPattern": "(" }), "keyPattern"),
        (json!({ "keyPattern": "a)|(b" }), "keyPattern"),
        (json!({ "keyPattern": "(a{1000}){1000}" }), "keyPattern"),
        (json!({ "onCollision": "ignore" }), "onCollision"),
        (json!({ "collisionIgnore": ["sentAt"] }), "collisionIgnore[0]"),
        (json!({ "onDead": "mourn" }), "onDead"),
        (json!({ "retention": { "completed": 2 * year } }), "retention.completed"),
        (json!({ "duplicates": { "limit": 0 } }), "duplicates.limit"),
        (json!({ "payloadLimit": 0 }), "payloadLimit"),
        (json!({ "payloadLimit": 1_000_000_000 }), "payloadLimit"),
        (json!({ "name": "other" }), "name"),
    ];
    let cases = bad.iter().map(|(body, _)| Case::new("PUT", "/v1/queues/q", body.to_string()));
    for (problem, (body, field)) in refused(world, cases).await.iter().zip(&bad) {
        assert_eq!(fields(problem), [*field], "{body}: {problem}");
    }
    world.client.get("/v1/queues/q").await.problem(404, "queue_not_found");
}

/// What an address leads to is looked at when it is called; what can never be called is refused at once.
async fn addresses_of_webhooks_are_checked(world: &World) {
    let long = format!("https://worker.example/{}", "a".repeat(2048));
    let urls = [
        "",
        "worker.example",
        "//worker.example/",
        "file:///etc/passwd",
        "ftp://worker.example/",
        "gopher://worker.example/",
        "javascript:alert(1)",
        "http://",
        "http:///jobs",
        "https://user@worker.example/",
        "https://user:secret@worker.example/",
        "http://worker.example:0/",
        "http://worker.example:65536/",
        "http://worker.example:x/",
        "http://worker.example:-1/",
        "http://[::1/",
        "http://a b/",
        "http://a\r\nHost: b/",
        "http://a\\@b/",
        "http://größe.example/",
        "http://a\u{0}/",
        &long,
    ];
    let body = |url: &str| json!({ "delivery": { "type": "push", "url": url } }).to_string();
    for problem in refused(world, urls.map(|url| Case::new("PUT", "/v1/queues/q", body(url)))).await {
        assert_eq!(fields(&problem), ["delivery.url"], "{problem}");
        assert!(!problem.to_string().contains("secret"), "a password is not repeated: {problem}");
    }
}
