//! A real Prometheus, pointed at the server with the rules that are shipped.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::promtool::shipped;
use crate::kit::{Backend, Client, World, eventually, within};

/// A Prometheus of this test's own. It ends with the test.
struct Prometheus {
    child: Child,
    client: Client,
}

impl Prometheus {
    /// Starts one that scrapes `target` every second.
    fn start(dir: &Path, target: &str) -> Self {
        let config = dir.join("prometheus.yml");
        let (rules, target) = (shipped("alerts.yml"), target.trim_start_matches("http://"));
        let text = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\n\
             scrape_configs: [{{ job_name: semel, static_configs: [{{ targets: ['{target}'] }}] }}]\n",
            rules.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("prometheus is there: make need installs it with promtool");
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = log.by_ref().find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("msg=\"Listening on\" address=")?;
            Some(rest.split_whitespace().next()?.to_owned())
        });
        // What it says later is of no use, but has to be read.
        std::thread::spawn(move || log.for_each(drop));
        Self { child, client: Client::to(format!("http://{}", address.expect("it listens")), None) }
    }

    /// What a query finds, as soon as it finds anything.
    async fn finds(&self, query: &str) -> Value {
        let path = format!("/api/v1/query?query={query}");
        let look = async || {
            // It listens before it is ready, and says 503 until then.
            let found = self.client.get(&path).await.json["data"]["result"].clone();
            found.as_array().is_some_and(|series| !series.is_empty()).then_some(found)
        };
        within(eventually(look)).await
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // One that has ended cannot be killed; that is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_prometheus_reads_what_it_negotiates_and_takes_the_rules() {
    let world = World::start(Backend::Embedded).await;
    world.queue("q", serde_json::json!({})).await;
    world.publish("q", serde_json::json!({ "payload": 1, "idempotencyKey": "k" })).await;
    let dir = tempfile::tempdir().unwrap();
    let prometheus = tokio::task::block_in_place(|| Prometheus::start(dir.path(), world.client.base()));
    let created = prometheus.finds("semel_publishes_total%7Boutcome%3D%22created%22%7D").await;
    assert_eq!(
        (&created[0]["metric"]["queue"], &created[0]["value"][1]),
        (&"q".into(), &"1".into()),
        "{created}"
    );
    assert_eq!(prometheus.finds("semel_keys").await[0]["value"][1], "1");
    let targets = prometheus.client.get("/api/v1/targets").await.expect(200);
    let target = &targets["data"]["activeTargets"][0];
    assert_eq!((&target["health"], &target["lastError"]), (&"up".into(), &"".into()), "{target}");
    let rules = prometheus.client.get("/api/v1/rules").await.expect(200);
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
    assert!(rules.len() >= 9 && rules.iter().all(|rule| rule["lastError"].is_null()), "{rules:#?}");
    world.end().await;
}
