//! What a server costs its database while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use semel_cluster::Cluster;
use semel_server::service::{AuthMode, Options, Running};
use semel_store::Shared;
use semel_store_postgres::PostgresStore;
use serde_json::json;
use tokio::net::TcpListener;

use crate::kit::{Client, caller};

/// Long enough for everything that happens every fifteen seconds to happen once.
const IDLE: Duration = Duration::from_secs(20);

/// Most statements a second that an idle node may make.
const MOST: f64 = 1.5;

/// Counts the statements in the server's log, which is the one place that has them all: the counters of a database know
/// transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_node_makes_few_statements() {
    let logged = [("log_statement", "all"), ("log_line_prefix", "@ ")];
    let cluster = tokio::task::spawn_blocking(move || Cluster::with(&logged)).await.unwrap().unwrap();
    let url = cluster.socket_url("postgres");
    let store = Arc::new(PostgresStore::open(&url, semel_store_postgres::Options::default()).await.unwrap());
    let options = Options { auth: AuthMode::Open, ..Options::default() };
    let shared: Arc<dyn Shared> = store.clone();
    let running = Running::start(store, Some(shared), caller(), None, options).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(listener.local_addr().unwrap(), None);
    let (stopper, stop) = semel_server::stop::pair();
    let serving = tokio::spawn(semel_server::net::serve(
        listener,
        semel_server::net::Server::new(running.router()),
        stop,
    ));
    for n in 0..3 {
        client.put(&format!("/v1/queues/pull-{n}"), json!({})).await.expect(201);
        let push = json!({ "delivery": { "type": "push", "url": "http://127.0.0.1:9/hook" } });
        client.put(&format!("/v1/queues/push-{n}"), push).await.expect(201);
    }
    let schedule = json!({ "queue": "pull-0", "cron": "0 0 1 1 *", "payload": 1 });
    client.put("/v1/schedules/new-year", schedule).await.expect(201);

    // What the queues have set going comes to rest.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let log = cluster.directory().join("log");
    let before = std::fs::read_to_string(&log).unwrap().len();
    tokio::time::sleep(IDLE).await;
    let text = std::fs::read_to_string(&log).unwrap();
    let made: Vec<_> = text[before..].split("@ LOG:").filter(|line| is_statement(line)).collect();
    #[expect(clippy::cast_precision_loss, reason = "a few statements")]
    let rate = made.len() as f64 / IDLE.as_secs_f64();
    println!("an idle node made {rate:.2} statements a second");
    assert!(rate > 0.1, "they are counted: {text}");
    assert!(rate <= MOST, "{rate:.2} statements a second: {made:#?}");

    stopper.stop();
    serving.await.unwrap();
    running.stop(Duration::from_secs(10)).await.unwrap();
}

fn is_statement(line: &str) -> bool {
    line.contains("execute ") || line.contains("statement: ")
}
