//! The way of a job, as a collector sees it.

use http::Method;
use semel_server::metrics::text::Format;
use semel_server::telemetry::Export;
use serde_json::{Value, json};

use super::collector::{Collector, Mood, export_to, world_with};
use crate::kit::{Backend, Worker, World, within};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PUBLISHER: &str = "00f067aa0ba902b7";

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{PUBLISHER}-{flags}")
}

async fn publish(world: &World, queue: &str, traceparent: Option<&str>, body: Value) -> Value {
    let headers: Vec<_> = traceparent.map(|parent| ("traceparent", parent)).into_iter().collect();
    let path = format!("/v1/queues/{queue}/jobs");
    world.client.send(Method::POST, &path, &headers, Some(body.to_string())).await.json
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_called_within_the_trace_of_its_publisher() {
    let collector = Collector::start(Mood::Content).await;
    let world = world_with(Backend::Memory, collector.export()).await;
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let body =
        json!({ "payload": "secret-payload", "idempotencyKey": "secret-key", "group": "secret-group" });
    let job = id(&publish(&world, "q", Some(&parent("01")), body).await);
    let call = worker.call().await;
    world.until(&job, "completed").await;
    world.end().await;

    let (publish, deliver, ack) =
        (collector.span("publish q"), collector.span("deliver q"), collector.span("ack q"));
    assert_eq!([publish.trace(), deliver.trace(), ack.trace()], [TRACE; 3]);
    assert_eq!(publish.parent(), Some(PUBLISHER));
    assert_eq!(deliver.parent(), Some(publish.id()));
    assert_eq!(ack.parent(), Some(deliver.id()));
    assert_eq!(
        call.header("traceparent"),
        format!("00-{TRACE}-{}-01", deliver.id()),
        "the worker is below our span"
    );
    assert_eq!(call.body["traceparent"], call.header("traceparent"));
    publish.is_of("q", ("publish", "send"), 4);
    deliver.is_of("q", ("deliver", "process"), 3);
    ack.is_of("q", ("ack", "settle"), 1);
    for span in [&publish, &deliver, &ack] {
        assert_eq!(span.attribute("messaging.message.id").as_ref(), Some(&job));
        assert!(span.0["status"].is_null() && span.events().is_empty(), "{span:?}");
    }
    assert_eq!(deliver.attribute("http.response.status_code").as_deref(), Some("200"));
    assert_eq!(
        (deliver.attribute("semel.attempt"), ack.attribute("semel.status")),
        (Some("1".into()), Some("completed".into()))
    );
    assert!(!collector.text().contains("secret"), "{}", collector.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_pulled_is_one_trace_from_publish_to_ack() {
    let collector = Collector::start(Mood::Content).await;
    let world = world_with(Backend::Memory, collector.export()).await;
    world.queue("q", json!({})).await;
    let job = id(&publish(&world, "q", None, json!({ "payload": 1 })).await);
    let leased = world.lease_one("q").await;
    world.settle("ack", &leased, json!({ "effect": { "outcome": "replayed" } })).await.expect(200);
    world.end().await;

    let (publish, deliver, ack) =
        (collector.span("publish q"), collector.span("deliver q"), collector.span("ack q"));
    assert_eq!((publish.parent(), publish.trace().len()), (None, 32), "a trace of its own");
    assert_eq!([deliver.trace(), ack.trace()], [publish.trace(); 2]);
    assert_eq!((deliver.parent(), ack.parent()), (Some(publish.id()), Some(deliver.id())));
    assert_eq!(leased["traceparent"], format!("00-{}-{}-01", deliver.trace(), deliver.id()));
    deliver.is_of("q", ("deliver", "process"), 5);
    ack.is_of("q", ("ack", "settle"), 2);
    assert_eq!(ack.attribute("messaging.message.id"), Some(job));
    assert_eq!(
        (ack.attribute("semel.effect").as_deref(), ack.events()),
        (Some("replayed"), vec!["effect.replayed"])
    );
    assert_eq!(ack.attribute("semel.deduplicated").as_deref(), Some("true"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_traces_settles_in_its_own_span_and_is_linked_to_the_delivery() {
    let collector = Collector::start(Mood::Content).await;
    let world = world_with(Backend::Memory, collector.export()).await;
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1, "metadata": { "traceparent": parent("01") } })).await;
    let leased = world.lease_one("q").await;
    let working = leased["traceparent"]
        .as_str()
        .unwrap()
        .replace(&leased["traceparent"].as_str().unwrap()[36..52], "00000000000000aa");
    let items = json!({ "items": [{ "id": leased["id"], "action": "nack", "lease": leased["lease"] }] });
    let headers = [("traceparent", working.as_str())];
    world.client.send(Method::POST, "/v1/settle", &headers, Some(items.to_string())).await.expect(200);
    let late = json!({ "lease": leased["lease"] });
    let path = format!("/v1/jobs/{}/ack", leased["id"].as_str().unwrap());
    world
        .client
        .send(Method::POST, &path, &headers, Some(late.to_string()))
        .await
        .problem(409, "stale_lease");
    world.end().await;

    let (publish, deliver, nack) =
        (collector.span("publish q"), collector.span("deliver q"), collector.span("nack q"));
    assert_eq!(
        (publish.trace(), publish.parent()),
        (TRACE, Some(PUBLISHER)),
        "the metadata names the trace, too"
    );
    assert_eq!((nack.trace(), nack.parent()), (TRACE, Some("00000000000000aa")));
    assert_eq!(nack.0["links"], json!([{ "traceId": TRACE, "spanId": deliver.id() }]));
    let late = collector.span("ack");
    assert_eq!(
        (&late.0["status"]["code"], late.attribute("error.type").as_deref()),
        (&json!(2), Some("stale_lease"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_and_failures_are_marked() {
    let collector = Collector::start(Mood::Content).await;
    let world = world_with(Backend::Memory, collector.export()).await;
    for queue in ["again", "other"] {
        world.queue(queue, json!({})).await;
        publish(&world, queue, Some(&parent("00")), json!({ "payload": 1, "idempotencyKey": "k" })).await;
    }
    let first =
        publish(&world, "again", Some(&parent("01")), json!({ "payload": 1, "idempotencyKey": "k" })).await;
    publish(&world, "other", Some(&parent("01")), json!({ "payload": 2, "idempotencyKey": "k" })).await;
    publish(&world, "nowhere", Some(&parent("01")), json!({ "payload": 1 })).await;
    let batch = json!({ "jobs": [{ "payload": 1, "idempotencyKey": "k" }, { "payload": 1 }] });
    let headers = [("traceparent", parent("01"))];
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    world.queue("many", json!({})).await;
    world
        .publish(
            "many",
            json!({ "payload": 1, "idempotencyKey": "k", "metadata": { "traceparent": parent("00") } }),
        )
        .await;
    world
        .client
        .send(Method::POST, "/v1/queues/many/jobs/batch", &headers, Some(batch.to_string()))
        .await
        .expect(200);
    world.end().await;

    let (again, other) = (collector.span("publish again"), collector.span("publish other"));
    assert_eq!((again.events(), other.events()), (vec!["job.deduplicated"], vec!["job.collision"]));
    assert_eq!(again.attribute("messaging.message.id"), Some(id(&first)), "it names the job that was found");
    assert_eq!(
        (again.attribute("semel.deduplicated").as_deref(), again.attribute("semel.collision")),
        (Some("true"), None)
    );
    assert_eq!(other.attribute("semel.collision").as_deref(), Some("true"));
    assert!(again.0["status"].is_null() && other.0["status"].is_null(), "a deduplication is no failure");
    assert_eq!(collector.span("publish nowhere").attribute("error.type").as_deref(), Some("queue_not_found"));
    let many = collector.span("publish many");
    assert_eq!(many.attribute("messaging.batch.message_count").as_deref(), Some("2"));
    assert_eq!(many.attribute("semel.deduplicated.count").as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_that_is_not_recorded_is_passed_on_and_not_told() {
    let collector = Collector::start(Mood::Content).await;
    let world = world_with(Backend::Memory, collector.export()).await;
    world.queue("q", json!({})).await;
    publish(&world, "q", Some(&parent("00")), json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    assert_eq!(leased["metadata"]["traceparent"], parent("00"));
    assert!(leased["traceparent"].as_str().unwrap().starts_with(&format!("00-{TRACE}-")));
    world.settle("ack", &leased, json!({})).await.expect(200);
    world.end().await;
    assert!(collector.spans().is_empty(), "{:#?}", collector.spans());
}

/// Publishes and delivers some jobs, and ends the server; returns what it counted.
async fn goes_on(export: Export) -> String {
    let world = world_with(Backend::Memory, export).await;
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    for _ in 0..20 {
        let job = id(&publish(&world, "q", None, json!({ "payload": 1 })).await);
        worker.call().await;
        world.until(&job, "completed").await;
    }
    let service = world.running.service().clone();
    within(world.end()).await;
    Format::Classic.write(&service.registry).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_down_costs_spans_and_no_jobs() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1/traces", nobody.local_addr().unwrap());
    drop(nobody);
    let counted = goes_on(export_to(&address)).await;
    assert!(counted.contains("semel_spans_total{outcome=\"failed\"} 60"), "{counted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_never_answers_holds_up_nobody() {
    let collector = Collector::start(Mood::Silent).await;
    let counted = goes_on(collector.export()).await;
    assert!(!counted.contains("outcome=\"exported\""), "{counted}");
}
