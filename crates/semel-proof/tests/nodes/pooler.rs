//! PgBouncer between the nodes and the database, with another connection for every transaction: everything works, wake-ups
//! by a direct connection for those that listen.

use std::time::Duration;

use semel_cluster::{Bouncer, Cluster};
use semel_proof::settings;

use crate::kit::pause::pass;
use crate::kit::process::Launch;
use crate::stage::{DATABASE, NODES, Stage};

#[test]
fn heavy_nodes_behind_a_pooler() {
    let cluster = Cluster::start().unwrap();
    let bouncer = Bouncer::start(&cluster).unwrap();
    let pooled = || Launch::node(&bouncer.url(DATABASE)).set("store.prepare=false");
    let mut launches: Vec<_> = (0..NODES).map(|_| pooled()).collect();
    // One has a direct way to listen by; the others do without.
    launches[0] = pooled().set(&format!("store.listenUrl={}", cluster.url(DATABASE)));
    let stage = Stage::started(launches);
    let traffic = stage.traffic();
    pass(Duration::from_secs(if settings::is_soak() { 120 } else { 2 }));
    // What the pooler holds is ended under it, too.
    cluster.terminate_backends().unwrap();
    stage.wait_for_work(100);
    stage.finish_well(traffic, &cluster.url(DATABASE));
}
