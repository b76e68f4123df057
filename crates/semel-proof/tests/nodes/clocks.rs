//! Nodes whose wall clocks are ten minutes off in either direction (fault 16): only the database's clock decides.

use std::time::Duration;

use semel_cluster::Cluster;
use semel_core::key::Key;
use semel_core::payload::Payload;
use semel_core::time::{Millis, Timestamp};
use semel_proof::disk::skip;
use semel_proof::history::Call;
use semel_proof::settings;
use semel_proof::workload::digest;
use serde_json::json;

use crate::kit::faketime::{jump, library, with_clock};
use crate::kit::http::Response;
use crate::kit::pause::pass;
use crate::kit::plan::{Queue, queue_name};
use crate::kit::process::Launch;
use crate::kit::wire::{logged_at, time};
use crate::kit::witness::wall_clock;
use crate::stage::{DATABASE, NODES, Node, Stage, turn};

const TICKS: &str = "ticks";
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
    let first = log.lines().next().expect("a node logs");
    let off = logged_at(first).millis().abs_diff(wall_clock().millis());
    assert!(off.abs_diff(seconds.unsigned_abs() * 1000) < CLOSE_MILLIS, "off by {off} ms: {log}");
}

/// What it tells about time is the database's word.
fn assert_right(stage: &Stage, node: usize) {
    let stats = stage.client_of(node).get("/v1/stats").unwrap().json();
    let off = time(stats["now"].as_str().unwrap()).millis().abs_diff(wall_clock().millis());
    println!("node {}, whose clock is off by {}, is {off} ms off", node + 1, SKEWS[node].0);
    assert!(off < CLOSE_MILLIS, "{stats}");
}

/// A schedule of all nodes that strikes every second.
struct Ticks<'a> {
    stage: &'a Stage,
    began: Timestamp,
}

impl<'a> Ticks<'a> {
    fn start(stage: &'a Stage) -> Self {
        stage.put(&Queue::new(TICKS, &json!({"type": "pull", "leaseSeconds": 10})));
        let schedule = json!({"queue": TICKS, "cron": "* * * * * *", "payload": 1}).to_string();
        let began = wall_clock();
        done(&stage.client().ask("PUT", "/v1/schedules/ticks", &schedule).unwrap());
        Self { stage, began }
    }

    /// Each second was struck once, whoever of the nodes did it.
    fn end(self) {
        done(&self.stage.client().ask("DELETE", "/v1/schedules/ticks", "").unwrap());
        let now = wall_clock();
        let seconds: Vec<_> = (self.began.millis() / 1000..=now.millis() / 1000).map(strike).collect();
        let first = self.stage.witness.invoke(&seconds);
        // Nobody is told whether the server has published it.
        (first..).zip(&seconds).for_each(|(op, _)| self.stage.witness.unknown(op, "a schedule".into()));
        let struck = turn::take(self.stage, &mut self.stage.client(), TICKS, 0).jobs;
        let most = seconds.len();
        println!("{struck} of {most} seconds were struck");
        assert!((most / 2..=most).contains(&struck), "{struck} of {most}");
    }
}

/// What the schedule publishes when a second strikes.
fn strike(second: u64) -> Call {
    let date = jiff::Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
    let key = Key::try_from(format!("schedule:{TICKS}:{date}")).unwrap();
    let digest = digest(&Payload::from_parsed("1".to_owned()));
    Call::Publish { queue: queue_name(TICKS), key: Some(key), digest, delay: Millis::ZERO }
}

fn done(answer: &Response) {
    assert!(answer.status < 300, "{}", answer.text());
}
