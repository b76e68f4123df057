//! Nodes whose wall clocks are ten minutes off in either direction (fault 16): only the database's clock decides.

use std::time::Duration;

use semel_cluster::Cluster;
use semel_proof::disk::skip;
use semel_proof::settings;
use serde_json::{Value, json};

use crate::kit::faketime::{jump, library, with_clock};
use crate::kit::http::Client;
use crate::kit::pause::pass;
use crate::kit::process::Launch;
use crate::kit::wire::time;
use crate::kit::witness::wall_clock;
use crate::stage::{DATABASE, NODES, Node, Stage};

const SKEWS: [(&str, i64); NODES] = [("+10m", 600), ("+0", 0), ("-10m", -600)];
/// How far off a time may be that was right when it was told: a fraction of the skew, and longer than any answer takes.
const CLOSE_MILLIS: u64 = 5000;

#[test]
fn heavy_nodes_with_skewed_clocks() {
    let library = match library() {
        Ok(library) => library,
        Err(why) => return skip("nodes with skewed clocks", &why),
    };
    let (cluster, home) = (Cluster::start().unwrap(), tempfile::tempdir().unwrap());
    let launches = SKEWS.iter().map(|_| Launch::node(&cluster.url(DATABASE))).collect();
    let mut stage = Stage::prepared([127, 0, 0, 1].into(), launches);
    for (node, (skew, seconds)) in stage.nodes.iter_mut().zip(SKEWS) {
        let file = home.path().join(skew);
        jump(&file, skew);
        let mut command = node.launch.command();
        with_clock(&mut command, &library, &file);
        node.begin_as(command);
        node.wait_until_ready();
        assert_skewed(node, seconds);
    }
    stage.make_queues();
    let ticks = Ticks::start(&stage);
    let traffic = stage.traffic();
    (0..NODES).for_each(|node| assert_right(&stage, node));
    pass(Duration::from_secs(if settings::is_soak() { 120 } else { 4 }));
    ticks.end();
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

/// The process itself goes by the wrong clock: so it dates its log.
fn assert_skewed(node: &mut Node, seconds: i64) {
    node.server_mut().wait_for("listening");
    let log = node.read_log();
    let date = log.split_whitespace().next().expect("the date of the first line");
    let off = time(date).millis().abs_diff(wall_clock().millis());
    assert!(off.abs_diff(seconds.unsigned_abs() * 1000) < CLOSE_MILLIS, "off by {off} ms: {log}");
}

/// What it tells about time is the database's word.
fn assert_right(stage: &Stage, node: usize) {
    let stats = stage.client_of(node).get("/v1/stats").unwrap().json();
    let off = time(stats["now"].as_str().unwrap()).millis().abs_diff(wall_clock().millis());
    println!("node {}, whose clock is off by {}, is {off} ms off", node + 1, SKEWS[node].0);
    assert!(off < CLOSE_MILLIS, "{stats}");
}

/// A schedule of all nodes that strikes every second, into a queue that nobody works on.
struct Ticks {
    client: Client,
    began: u64,
}

impl Ticks {
    fn start(stage: &Stage) -> Self {
        let mut client = stage.client();
        done(&mut client, "PUT", "/v1/queues/ticks", &json!({}));
        let began = wall_clock().millis();
        let schedule = json!({"queue": "ticks", "cron": "* * * * * *", "payload": 1});
        done(&mut client, "PUT", "/v1/schedules/ticks", &schedule);
        Self { client, began }
    }

    /// Each second was struck once. Then the queue is taken away: nobody who was heard has published what is in it.
    fn end(mut self) {
        done(&mut self.client, "DELETE", "/v1/schedules/ticks", &Value::Null);
        let passed = (wall_clock().millis() - self.began) / 1000;
        let leased = done(&mut self.client, "POST", "/v1/queues/ticks/lease", &json!({"max": 256}));
        let jobs = leased["jobs"].as_array().unwrap();
        println!("{} seconds were struck while {passed} passed", jobs.len());
        let struck = u64::try_from(jobs.len()).unwrap();
        assert!((passed / 2..=passed + 1).contains(&struck), "{struck} of {passed}");
        for job in jobs {
            let path = format!("/v1/jobs/{}/ack", job["id"].as_str().unwrap());
            done(&mut self.client, "POST", &path, &json!({"lease": job["lease"]}));
        }
        done(&mut self.client, "DELETE", "/v1/queues/ticks", &Value::Null);
    }
}

fn done(client: &mut Client, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = client.ask(method, path, &body).unwrap();
    assert!(answer.status < 300, "{method} {path}: {}", answer.text());
    answer.json()
}
