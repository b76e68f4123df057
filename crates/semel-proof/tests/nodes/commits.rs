//! Connections that end in the middle of a COMMIT (fault 21): whoever is not told is told that nobody knows, and finds out
//! with the key.

use std::time::Duration;

use semel_cluster::{Cluster, Proxy, Seen, Side, Trap};
use semel_proof::settings;

use crate::kit::plan::Item;
use crate::partitions::behind_proxies;
use crate::stage::{DATABASE, NODES, Stage};

/// Longer than it takes until the next commit.
const SOON: Duration = Duration::from_secs(10);
/// Numbers of jobs apart from those of the traffic.
const FIRST: u64 = 1_000_000;

#[test]
fn heavy_nodes_whose_commits_are_cut() {
    let cluster = Cluster::start().unwrap();
    let (stage, proxies) = behind_proxies(&cluster);
    assert_unknown_and_resolved_by_key(&stage, &proxies);
    let traffic = stage.traffic();
    let traps = [Trap::commit_answer_lost(), call_answer_lost(), Trap::commit_sent(), Trap::commit_lost()];
    let rounds = if settings::is_soak() { 1000 } else { 21 };
    for round in 0..rounds {
        let proxy = &proxies[round % NODES];
        proxy.cut_when(traps[round % traps.len()].clone());
        assert!(proxy.wait_until_sprung(SOON), "nothing was committed");
    }
    println!("{rounds} connections were cut at a COMMIT");
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

/// A call that is a transaction by itself has committed, and the node does not hear of it: the server says what it has done when
/// it has.
fn call_answer_lost() -> Trap {
    Trap { from: Side::Server, when: Seen::Bytes(b"SELECT 1\0".to_vec()), deliver: false }
}

/// The database has committed, the node cannot know it, and says so. The same publish again, at any node, finds the job.
fn assert_unknown_and_resolved_by_key(stage: &Stage, proxies: &[Proxy; NODES]) {
    let mut items = (FIRST..).map(|number| Item::keyed_in("plain", number));
    for (node, proxy) in proxies.iter().enumerate() {
        let doubtful = items.by_ref().take(20).find(|item| is_left_in_doubt(stage, node, proxy, *item));
        let doubtful = doubtful.expect("the answer to a publish is lost");
        let found = stage.publish(&mut stage.client_of((node + 1) % NODES), doubtful).unwrap();
        assert!(found.deduplicated, "the database had committed it");
        let again = stage.publish(&mut stage.client_of(node), doubtful).unwrap();
        assert_eq!((again.id, again.deduplicated), (found.id, true));
    }
}

/// Publishes while a trap is set, now for the one and now for the other way to publish; false if nobody or upkeep walked into
/// it.
fn is_left_in_doubt(stage: &Stage, node: usize, proxy: &Proxy, item: Item) -> bool {
    proxy.cut_when(if item.n.is_multiple_of(2) { call_answer_lost() } else { Trap::commit_answer_lost() });
    match stage.publish(&mut stage.client_of(node), item) {
        Ok(_) => false,
        Err(problem) => {
            assert_eq!(problem, (503, "unknown_outcome".to_owned()));
            true
        }
    }
}
