//! One campaign against many nodes: the nodes, a webhook, clients that use all of them, a witness, and the way to a verdict.

mod node;
pub(crate) mod refusals;
pub(crate) mod turn;

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_cluster::Cluster;
use semel_proof::checker::Verdict;
use semel_proof::settings;
use semel_store::Store;
use semel_store_postgres::{Options, PostgresStore};

pub(crate) use node::Node;

use crate::kit::endpoint::{Endpoint, Manner};
use crate::kit::http::{Client, Door};
use crate::kit::pause::{Sign, until};
use crate::kit::plan::{Item, Lane, Queue};
use crate::kit::process::{Launch, semel};
use crate::kit::publisher::publish;
use crate::kit::traffic::{Shared, Traffic};
use crate::kit::wire::{Published, unfinished};
use crate::kit::witness::{Evidence, Witness};

/// How many nodes there are.
pub(crate) const NODES: usize = 3;
/// The database of every cluster.
pub(crate) const DATABASE: &str = "postgres";
/// I8: after the fault is healed everything is worked off within this time, by itself.
const DRAINED_WITHIN: Duration = Duration::from_secs(60);
/// I9: with fewer answered operations a run says nothing. A slow machine has to work longer for them.
const ENOUGH: u64 = 1000;
/// A request that takes longer than this, whatever has happened to the database, hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(16);
/// How long clients of the traffic wait before they ask another node. It is shorter than the nodes' own patience: while one
/// of them is cut off or stopped, the others have work.
const PATIENCE: Duration = Duration::from_secs(5);
const PUBLISHERS: u64 = 2;
const WORKERS: u64 = 4;

pub(crate) struct Stage {
    pub(crate) nodes: Vec<Node>,
    pub(crate) witness: Arc<Witness>,
    endpoint: Endpoint,
    well: Arc<Sign>,
    key: String,
    seed: u64,
}

impl Stage {
    /// Three nodes on one cluster, running, and the queues.
    pub(crate) fn on(cluster: &Cluster) -> Self {
        Self::by(&[(); NODES].map(|()| cluster.url(DATABASE)))
    }

    /// The same with these ways to the database.
    pub(crate) fn by(ways: &[String; NODES]) -> Self {
        Self::started(ways.iter().map(|url| Launch::node(url)).collect())
    }

    /// The same with these settings.
    pub(crate) fn started(launches: Vec<Launch>) -> Self {
        let mut stage = Self::prepared(Ipv4Addr::LOCALHOST.into(), launches);
        stage.nodes.iter_mut().for_each(Node::begin);
        stage.nodes.iter_mut().for_each(Node::wait_until_ready);
        stage.make_queues();
        stage
    }

    /// Nodes that do not run yet, and a webhook at this address.
    pub(crate) fn prepared(webhook: IpAddr, launches: Vec<Launch>) -> Self {
        let (witness, well) = (Arc::new(Witness::new()), Arc::new(Sign::default()));
        let endpoint = Endpoint::start_on(webhook, Manner::Usual, Arc::clone(&witness), Arc::clone(&well));
        let (key, seed) = (new_key(), settings::seed());
        println!("SEMEL_SEED={seed}");
        let launches = launches.into_iter().zip(1..);
        let nodes = launches.map(|(launch, number)| Node::new(launch, number, &key)).collect();
        Self { nodes, witness, endpoint, well, key, seed }
    }

    /// Makes the queues of the traffic.
    pub(crate) fn make_queues(&self) {
        Lane::ALL.into_iter().for_each(|lane| self.put(&lane.queue(self.endpoint.address)));
    }

    /// Makes a queue.
    pub(crate) fn put(&self, queue: &Queue) {
        queue.make(&mut self.client(), &self.witness);
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    fn door(&self) -> Door {
        let addresses = self.nodes.iter().map(|node| node.launch.address).collect();
        Door { addresses, key: Some(self.key.clone()), patience: PATIENCE }
    }

    /// A client of all nodes.
    pub(crate) fn client(&self) -> Client {
        Client::of(&self.door())
    }

    /// A client of one node, which waits for longer than the node may take.
    pub(crate) fn client_of(&self, node: usize) -> Client {
        let addresses = vec![self.nodes[node].launch.address];
        Client::of(&Door { addresses, patience: DEADLINE * 2, ..self.door() })
    }

    /// Publishes one job, and takes it down.
    pub(crate) fn publish(&self, client: &mut Client, item: Item) -> Result<Published, (u16, String)> {
        publish(&self.witness, client, item)
    }

    /// Publishers and workers that use all nodes.
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic::start(self.shared(), PUBLISHERS, WORKERS)
    }

    /// The same, and nothing is called off.
    pub(crate) fn traffic_without_cancels(&self) -> Traffic {
        let mut shared = self.shared();
        shared.cancels = false;
        Traffic::start(shared, PUBLISHERS, WORKERS)
    }

    fn shared(&self) -> Shared {
        Shared::new(self.door(), self.seed, Arc::clone(&self.witness), Arc::clone(&self.well))
    }

    /// Waits until so many more operations were answered: whatever is broken, the rest goes on.
    pub(crate) fn wait_for_work(&self, operations: u64) {
        let goal = self.witness.oks() + operations;
        until("the work goes on", DRAINED_WITHIN, || (self.witness.oks() >= goal).then_some(()));
    }

    /// Waits until every node says that it is ready.
    pub(crate) fn wait_until_all_ready(&self) {
        for node in 0..self.nodes.len() {
            until("the node is ready", DRAINED_WITHIN, || {
                self.client_of(node).get("/readyz").ok().filter(|answer| answer.status == 200)
            });
        }
    }

    /// Lets everything be worked off, stops the nodes, and reads the database at `store`.
    pub(crate) fn finish(mut self, mut traffic: Traffic, store: &str) -> Evidence {
        until("enough operations are answered", DRAINED_WITHIN, || {
            (self.witness.oks() >= ENOUGH).then_some(())
        });
        let began = Instant::now();
        traffic.stop_publishing();
        let mut client = self.client();
        until("everything is drained", DRAINED_WITHIN, || unfinished(&mut client).filter(|left| *left == 0));
        let drained = began.elapsed();
        traffic.end();
        let secrets = [&self.key, password(store)];
        self.nodes.iter_mut().for_each(|node| node.end_well(&secrets));
        println!("drained in {} ms", drained.as_millis());
        self.evidence(store, true)
    }

    /// The same, and everything must hold.
    pub(crate) fn finish_well(self, traffic: Traffic, store: &str) {
        let report = self.finish(traffic, store).report();
        println!("{report}");
        assert_eq!(report.verdict(), Verdict::Holds, "{report}");
    }

    /// Reads the database.
    pub(crate) fn evidence(&self, store: &str, drained: bool) -> Evidence {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = Options { node_name: "judge".into(), migrate: false, ..Options::default() };
            let opened: Arc<dyn Store> = Arc::new(PostgresStore::open(store, options).await.unwrap());
            let evidence = self.witness.evidence(&opened, drained).await.unwrap();
            opened.close().await.unwrap();
            evidence
        })
    }
}

/// An API key, from whoever makes them.
fn new_key() -> String {
    let made = Command::new(semel()).args(["serve", "--new-key"]).output().unwrap();
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(key.starts_with("sml_"), "{key:?}");
    key
}

/// The password in the address of a database: `postgres://user:password@host/database`.
fn password(store: &str) -> &str {
    let (before, _) = store.split_once('@').expect("an address with a user");
    before.rsplit_once(':').expect("a user with a password").1
}
