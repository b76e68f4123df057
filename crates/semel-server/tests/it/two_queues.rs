//! Queues do not wait for each other, and a webhook leads where its queue says and nowhere else.

use serde_json::json;
use tokio::net::TcpListener;

use crate::kit::{Worker, World, answer, scenarios};

scenarios!(
    an_endpoint_that_swallows_everything_delays_no_other_queue,
    a_held_queue_delays_no_other_queue,
    a_redirect_is_not_followed,
);

/// More jobs than a queue has out at once, so that its dispatcher is full.
const BACKLOG: usize = 100;

async fn an_endpoint_that_swallows_everything_delays_no_other_queue(world: &World) {
    // Nobody accepts: connections are made by the kernel, requests are taken, and no answer ever comes.
    let blackhole = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", blackhole.local_addr().unwrap());
    world.queue("slow", json!({ "delivery": { "type": "push", "url": url } })).await;
    let jobs = vec![json!({ "payload": 1 }); BACKLOG];
    world.client.post("/v1/queues/slow/jobs/batch", json!({ "jobs": jobs })).await.expect(200);
    world.until_queue("slow", |queue| queue["counts"]["processing"] == 64).await;
    let mut worker = Worker::start().await;
    world.push_queue("quick", &worker, json!({}), json!({})).await;
    for n in 0..20 {
        let made = world.publish("quick", json!({ "payload": n })).await;
        assert_eq!(worker.call().await.body["payload"], n);
        world.until(made["id"].as_str().unwrap(), "completed").await;
    }
    let counts = world.look_at("slow").await["counts"].clone();
    assert_eq!(
        (&counts["processing"], &counts["pending"]),
        (&json!(64), &json!(BACKLOG - 64)),
        "not one has ended"
    );
    // Breaks the connections, so that nobody waits for their time-out at the end.
    drop(blackhole);
}

async fn a_held_queue_delays_no_other_queue(world: &World) {
    let worker = Worker::start().await;
    worker.answers(|call| answer(if call.body["queue"] == "busy" { 503 } else { 200 }, &[], ""));
    for queue in ["busy", "free"] {
        world.push_queue(queue, &worker, json!({}), json!({})).await;
    }
    world.publish("busy", json!({ "payload": 1 })).await;
    world.until_queue("busy", |queue| queue["heldUntil"].is_string()).await;
    let made = world.publish("free", json!({ "payload": 1 })).await;
    world.until(made["id"].as_str().unwrap(), "completed").await;
    assert_eq!(
        world.look_at("free").await["heldUntil"],
        serde_json::Value::Null,
        "one webhook, but two queues"
    );
}

async fn a_redirect_is_not_followed(world: &World) {
    let (mut elsewhere, worker) = (Worker::start().await, Worker::start().await);
    for status in [301, 302, 303, 307, 308] {
        let target = elsewhere.url();
        worker.answers(move |_| answer(status, &[("location", &target)], ""));
        let queue = format!("q-{status}");
        world.push_queue(&queue, &worker, json!({}), json!({})).await;
        let made = world.publish(&queue, json!({ "payload": 1 })).await;
        let job = world.until_job(made["id"].as_str().unwrap(), |job| job["attempts"] == 1).await;
        assert_eq!((&job["status"], &job["history"][0]["status"]), (&json!("pending"), &json!("failed")));
        assert_eq!(job["history"][0]["webhookStatusCode"], status);
        assert!(job["lastError"].as_str().unwrap().contains("redirect"), "it says what to do: {job}");
    }
    assert!(elsewhere.calls_so_far().is_empty());
}
