//! A node on a network of its own, whose packets really vanish: one in five (fault 20), all in one direction (fault 19). The
//! system's own timers have to find out.

use std::time::Duration;

use semel_cluster::{Cluster, Error, Namespace, Proxy, Side};
use semel_proof::disk::skip;
use semel_proof::settings;

use crate::kit::pause::pass;
use crate::kit::process::{Launch, semel};
use crate::stage::{DATABASE, Node, Stage, refusals};

/// A cluster, a namespace with a node in it, and two nodes outside. All can reach the webhook, which is at the host's end
/// of the cable.
struct Cabled {
    stage: Stage,
    proxy: Proxy,
    namespace: Namespace,
    cluster: Cluster,
}

impl Cabled {
    fn start() -> Result<Self, Error> {
        let namespace = Namespace::create()?;
        let cluster = Cluster::start().unwrap();
        let proxy = Proxy::on(namespace.host(), cluster.address())?;
        let mut inside = Launch::node(&cluster.url_through(proxy.address(), DATABASE));
        inside.address.set_ip(namespace.address());
        let outside = [(); 2].map(|()| Launch::node(&cluster.url(DATABASE)));
        let launches = [inside].into_iter().chain(outside).map(|launch| launch.set(ALLOW)).collect();
        let mut stage = Stage::prepared(namespace.host(), launches);
        let command = stage.nodes[0].launch.completed(namespace.command(semel()));
        stage.nodes[0].begin_as(command);
        stage.nodes.iter_mut().skip(1).for_each(Node::begin);
        stage.nodes.iter_mut().for_each(Node::wait_until_ready);
        stage.make_queues();
        Ok(Self { stage, proxy, namespace, cluster })
    }

    fn lose(&self, from: Side, percent: u8) {
        self.namespace.lose(from, self.proxy.address().port(), percent).unwrap();
    }

    fn heal(&self) {
        println!("{} packets were lost", self.namespace.lost().unwrap());
        assert!(self.namespace.lost().unwrap() > 0, "nothing was lost");
        self.namespace.heal().unwrap();
    }
}

/// The webhook is at a private address, which deliveries go to only where that is allowed.
const ALLOW: &str = "delivery.allow=10.203.0.0/16";

#[test]
fn heavy_nodes_with_a_cable_that_loses_packets() {
    let cabled = match Cabled::start() {
        Ok(cabled) => cabled,
        Err(why) => return skip("packets lost between a node and the database", &why),
    };
    let traffic = cabled.stage.traffic();
    cabled.stage.wait_for_work(100);
    [Side::Client, Side::Server].into_iter().for_each(|side| cabled.lose(side, 20));
    pass(Duration::from_secs(if settings::is_soak() { 60 } else { 2 }));
    cabled.stage.wait_for_work(100);
    cabled.heal();
    let sides = if settings::is_soak() { &[Side::Server, Side::Client][..] } else { &[Side::Server] };
    for side in sides {
        cabled.stage.wait_until_all_ready();
        cabled.lose(*side, 100);
        refusals::assert_in_time(&cabled.stage, &[0]);
        cabled.stage.wait_for_work(50);
        cabled.heal();
    }
    cabled.stage.wait_until_all_ready();
    cabled.stage.finish_well(traffic, &cabled.cluster.url(DATABASE));
}
