//! How the store fares.

use std::sync::Arc;
use std::time::Duration;

use semel_server::service::{AuthMode, Options, Running};
use semel_store_embedded::EmbeddedStore;
use serde_json::json;
use tokio::net::TcpListener;

use crate::kit::{Client, caller};

/// A disk that is nearly full, as far as the store is concerned: it must keep more free than any disk has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_nearly_full_is_told_of() {
    let home = tempfile::tempdir().unwrap();
    let options = semel_store_embedded::Options { reserve_bytes: 1 << 60, ..Default::default() };
    let store = Arc::new(EmbeddedStore::open(home.path(), options).unwrap());
    let options = Options { auth: AuthMode::Open, ..Options::default() };
    let running = Running::start(store, None, caller(), None, options).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(listener.local_addr().unwrap(), None);
    let (stopper, stop) = semel_server::stop::pair();
    let server = semel_server::net::Server::new(running.router());
    let serving = tokio::spawn(semel_server::net::serve(listener, server, stop));

    client.put("/v1/queues/q", json!({})).await.expect(201);
    client.post("/v1/queues/q/jobs", json!({ "payload": 1 })).await.problem(507, "storage_full");
    let answer = client.get("/v1/advice").await.expect(200);
    let findings = answer["findings"].as_array().unwrap();
    let full = findings.iter().find(|finding| finding["code"] == "store_space").unwrap();
    assert_eq!((&full["severity"], &full["queue"]), (&json!("critical"), &json!(null)));
    assert!(full["remedy"].as_str().unwrap().contains("retention.completed"), "{full:#}");
    assert_eq!(full["evidence"]["reserveBytes"], 1_u64 << 60);

    stopper.stop();
    serving.await.unwrap();
    running.stop(Duration::from_secs(10)).await.unwrap();
}
