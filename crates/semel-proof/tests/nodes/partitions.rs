//! The network between the nodes and the database: cut (fault 18), cut in one direction (fault 19), slow (fault 22). A node
//! that cannot reach the database says so in time, and recovers by itself.

use std::time::{Duration, Instant};

use semel_cluster::{Cluster, Proxy, Side};
use semel_proof::settings;

use crate::kit::pause::pass;
use crate::stage::{DATABASE, NODES, Stage, refusals};

/// A proxy for each node, and the nodes behind them.
pub(crate) fn behind_proxies(cluster: &Cluster) -> (Stage, [Proxy; NODES]) {
    let proxies = [(); NODES].map(|()| Proxy::to(cluster.address()).unwrap());
    let ways = proxies.each_ref().map(|proxy| cluster.url_through(proxy.address(), DATABASE));
    (Stage::by(&ways), proxies)
}

/// Nothing passes between one node and the database; another hears nothing of the database, which does what it is told;
/// the third is not heard. Each is told apart by what the database knows, and by nothing else.
#[test]
fn heavy_nodes_partitioned_from_the_database() {
    let cluster = Cluster::start().unwrap();
    let (stage, proxies) = behind_proxies(&cluster);
    let traffic = stage.traffic();
    for round in 0..if settings::is_soak() { 6 } else { 1 } {
        stage.wait_for_work(100);
        let began = Instant::now();
        proxies[round % NODES].blackhole();
        proxies[(round + 1) % NODES].hold(Side::Server);
        proxies[(round + 2) % NODES].hold(Side::Client);
        refusals::assert_in_time(&stage, &[0, 1, 2]);
        if settings::is_soak() {
            pass(Duration::from_secs(60).saturating_sub(began.elapsed()));
            refusals::assert_in_time(&stage, &[0, 1, 2]);
        }
        proxies.iter().for_each(Proxy::pass);
        let healed = Instant::now();
        stage.wait_until_all_ready();
        let (away, back) = (healed - began, healed.elapsed());
        println!("away for {} ms, all nodes ready {} ms later", away.as_millis(), back.as_millis());
    }
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

/// Half a second more for every answer: slow, and everything works.
#[test]
fn heavy_nodes_far_from_the_database() {
    let cluster = Cluster::start().unwrap();
    let (stage, proxies) = behind_proxies(&cluster);
    let traffic = stage.traffic();
    stage.wait_for_work(100);
    proxies.iter().for_each(|proxy| proxy.delay(Duration::from_millis(250)));
    let began = Instant::now();
    stage.wait_for_work(if settings::is_soak() { 2000 } else { 30 });
    println!("the work went on at a distance of half a second, for {} ms", began.elapsed().as_millis());
    proxies.iter().for_each(Proxy::pass);
    stage.finish_well(traffic, &cluster.url(DATABASE));
}
