//! One node against three.
//!
//! Each side has nodes and a database of its own on the same PostgreSQL: neither inherits what the other wrote, or what nodes
//! remember of each other. They take turns, several times a round, because a machine changes its pace within seconds.

use semel_cluster::Cluster;
use tokio::runtime::Runtime;

use super::super::load::{self, Numbers};
use super::super::server::Server;
use super::Plan;
use super::rounds::{database, forget};
use crate::failure::Failure;
use crate::progress::Progress;

/// Whose turn it is. Whatever changes steadily while they take turns, such as the size of the log, touches both alike.
const TURNS: [Side; 6] = [Side::One, Side::Three, Side::Three, Side::One, Side::One, Side::Three];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    One,
    Three,
}

/// What one node and three publish per second.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Over 64 connections in all, on either side.
    pub(super) usual: Pair,
    /// Over three times as many, on either side.
    pub(super) loaded: Pair,
}

/// The two rates that are compared.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) one: f64,
    pub(super) three: f64,
}

impl Pair {
    /// Three nodes against one.
    pub(super) fn ratio(&self) -> f64 {
        self.three / self.one
    }
}

/// Measures both sides, on databases that are gone afterwards.
pub(super) fn measure(
    plan: &Plan,
    runtime: &Runtime,
    cluster: &Cluster,
    numbers: &Numbers,
    progress: &mut Progress,
) -> Result<Nodes, Failure> {
    progress.start("three nodes", 2);
    let (alone, together) = (database(cluster, "one_node")?, database(cluster, "three_nodes")?);
    let nodes = {
        let one = [Server::shared(&alone)?];
        let first = Server::shared(&together)?;
        let (second, third) = (first.beside(&together)?, first.beside(&together)?);
        let three = [first, second, third];
        let compare = |connections: usize| {
            let over = |side, jobs| {
                let servers: Vec<&Server> = match side {
                    Side::One => one.iter().collect(),
                    Side::Three => three.iter().collect(),
                };
                load::singles_over(runtime, &servers, connections, "single", jobs, numbers)
            };
            take_turns(plan.singles, over)
        };
        let usual = compare(load::CONNECTIONS)?;
        progress.set(1);
        Nodes { usual, loaded: compare(3 * load::CONNECTIONS)? }
    };
    forget(cluster, "one_node")?;
    forget(cluster, "three_nodes")?;
    Ok(nodes)
}

/// Lets both sides publish in turns, so many jobs a turn.
fn take_turns(
    jobs: u64,
    mut over: impl FnMut(Side, u64) -> Result<load::Load, Failure>,
) -> Result<Pair, Failure> {
    let mut rates: [Vec<f64>; 2] = Default::default();
    for side in [Side::Three, Side::One] {
        // What a start brings with it is over by then, and all three have heard of each other that they are busy.
        over(side, jobs)?;
    }
    for side in TURNS {
        // While the other had its turn everything became cold.
        over(side, jobs / 5)?;
        rates[side as usize].push(over(side, jobs)?.per_second());
    }
    // As many jobs in each turn: what all of them took together is the harmonic mean of the rates.
    let [one, three] = rates.map(|rates| {
        #[expect(clippy::cast_precision_loss, reason = "there are a few turns")]
        let turns = rates.len() as f64;
        turns / rates.iter().map(|rate| rate.recip()).sum::<f64>()
    });
    Ok(Pair { one, three })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_sides_have_as_many_turns_and_neither_is_always_first() {
        let places = |side| (0..TURNS.len()).filter(move |place| TURNS[*place] == side);
        assert_eq!(places(Side::One).count(), places(Side::Three).count());
        let firsts: Vec<_> = TURNS.chunks(2).map(|pair| pair[0]).collect();
        assert!(firsts.contains(&Side::One) && firsts.contains(&Side::Three));
    }

    #[test]
    fn a_rate_is_all_jobs_over_all_of_the_time_that_counts() {
        // The one takes a second a turn, then two, then three; three take two each time. What is warm-up counts for nobody.
        let mut turn = 0;
        let pair = take_turns(600, |side, jobs| {
            let seconds = match side {
                _ if jobs < 600 => 1000,
                Side::Three => 2,
                Side::One => {
                    turn += 1;
                    if turn == 1 { 1000 } else { turn - 1 }
                }
            };
            Ok(load::Load { jobs, took: Duration::from_secs(seconds), latency: load::histogram() })
        })
        .unwrap();
        assert!((pair.one - 300.0).abs() < 1e-6 && (pair.three - 300.0).abs() < 1e-6, "{pair:?}");
        assert!((pair.ratio() - 1.0).abs() < 1e-9);
    }
}
