//! The connection by which a node hears the others is dead (fault 30): polling takes over.

use std::thread;
use std::time::{Duration, Instant};

use semel_cluster::{Cluster, Proxy};
use semel_proof::settings;
use serde_json::json;

use crate::kit::pause::{pass, until};
use crate::kit::plan::{Item, Queue};
use crate::kit::process::Launch;
use crate::stage::{DATABASE, NODES, Stage, turn};

/// A job gets from the node it was published at to a worker who waits at another within this time, if they hear each other.
/// It takes milliseconds; the rest is for a slow machine.
const HEARD: Duration = Duration::from_millis(500);
/// The same if the worker's node knows that it is deaf: it looks every second.
const LOOKED: Duration = Duration::from_millis(2500);
/// The same if it does not know it yet: it looks every 15 seconds.
const LOOKED_RARELY: Duration = Duration::from_secs(17);
/// A node that can hear again does so within this time.
const RECOVERED: Duration = Duration::from_secs(45);
const RELAY: &str = "relay";

#[test]
fn heavy_nodes_that_do_not_hear_each_other() {
    let cluster = Cluster::start().unwrap();
    let listening = Proxy::to(cluster.address()).unwrap();
    let way = cluster.url_through(listening.address(), DATABASE);
    let launch = || Launch::node(&cluster.url(DATABASE)).set(&format!("store.listenUrl={way}"));
    let stage = Stage::started((0..NODES).map(|_| launch()).collect());
    let mut relay = Relay::make(&stage);
    relay.wait_until_heard();
    if settings::is_soak() {
        listening.blackhole();
        relay.assert_within(LOOKED_RARELY, "nodes that do not know that they are deaf");
        listening.pass();
        relay.wait_until_heard();
    }
    listening.refuse();
    assert!(listening.cut() >= NODES, "every node listens");
    relay.assert_within(LOOKED, "nodes that know that they are deaf");
    let traffic = stage.traffic();
    stage.wait_for_work(300);
    listening.pass();
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

/// A queue whose jobs are published at the first node and worked on at the second.
struct Relay<'a> {
    stage: &'a Stage,
    next: u64,
}

impl<'a> Relay<'a> {
    fn make(stage: &'a Stage) -> Self {
        stage.put(&Queue::new(RELAY, &json!({"type": "pull", "leaseSeconds": 10})));
        Self { stage, next: 1 }
    }

    fn wait_until_heard(&mut self) {
        until("the nodes hear each other", RECOVERED, || (self.hand_over() < HEARD).then_some(()));
    }

    fn assert_within(&mut self, limit: Duration, what: &str) {
        let took = self.hand_over();
        println!("{what}: {} ms", took.as_millis());
        assert!(took < limit, "{what}: {took:?}");
    }

    /// How long a job takes to a worker who already waits.
    fn hand_over(&mut self) -> Duration {
        let (stage, item) = (self.stage, Item::keyed_in(RELAY, self.next));
        self.next += 1;
        thread::scope(|scope| {
            let worker = scope.spawn(|| turn::take(stage, &mut stage.client_of(1), RELAY, 25));
            // Time for the worker to begin to wait. If it comes too late, it has its job at once and nothing is shown.
            pass(Duration::from_millis(300));
            stage.publish(&mut stage.client_of(0), item).unwrap();
            let published = Instant::now();
            let turn = worker.join().unwrap();
            assert_eq!(turn.jobs, 1, "it did not come at all");
            turn.came.saturating_duration_since(published)
        })
    }
}
