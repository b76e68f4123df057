//! One node against three.
//!
//! Each side has nodes and a database of its own on the same PostgreSQL: neither inherits what the other wrote, or what nodes
//! remember of each other.
//!
//! What is compared is how much either side can do at all: the best of several loads. A load is a number of connections with one
//! request under way on each, the same for both sides, so three nodes have a third of it each. With few that says how well commits
//! are filled, and not what nodes do to each other; with many it is the other way round.

use semel_cluster::Cluster;
use tokio::runtime::Runtime;

use super::super::load::{self, Numbers};
use super::super::server::Server;
use super::Plan;
use super::rounds::{database, forget};
use super::spent::Look;
use super::turns::{self, Pair, Side};
use crate::bench::report::Figure;
use crate::failure::Failure;
use crate::progress::Progress;

/// A load: so many connections in all, on either side.
struct Step {
    connections: usize,
    /// What the figures of it are called.
    names: [&'static str; 3],
}

/// As many as a node alone is measured with, as many for each of three, and twice as many again: where the best of either side is
/// behind them, not beyond.
const STEPS: [Step; 3] = [
    Step {
        connections: load::CONNECTIONS,
        names: [
            "64 connections, one node",
            "64 connections, three nodes",
            "64 connections, three against one",
        ],
    },
    Step {
        connections: 3 * load::CONNECTIONS,
        names: [
            "192 connections, one node",
            "192 connections, three nodes",
            "192 connections, three against one",
        ],
    },
    Step {
        connections: 6 * load::CONNECTIONS,
        names: [
            "384 connections, one node",
            "384 connections, three nodes",
            "384 connections, three against one",
        ],
    },
];

/// What three nodes publish per second, against one, at each of [`STEPS`].
#[derive(Debug)]
pub(super) struct Nodes(Vec<Pair>);

impl Nodes {
    /// The best of three nodes against the best of one.
    pub(super) fn ratio(&self) -> f64 {
        self.best(Side::Other) / self.best(Side::Base)
    }

    fn best(&self, side: Side) -> f64 {
        self.0.iter().map(|pair| pair.rate(side)).fold(0.0, f64::max)
    }

    /// With as few connections as a node alone is measured with.
    pub(super) fn usual(&self) -> &Pair {
        &self.0[0]
    }
}

/// The rates at each load, a round each.
pub(super) fn figures(rounds: &[&Nodes]) -> Vec<Figure> {
    let of = |step: usize, take: fn(&Pair) -> f64| rounds.iter().map(|nodes| take(&nodes.0[step])).collect();
    let mut figures = Vec::new();
    for (number, Step { names: [one, three, ratio], .. }) in STEPS.iter().enumerate() {
        figures.extend([
            Figure::new(one, "per second", of(number, |pair| pair.rate(Side::Base))),
            Figure::new(three, "per second", of(number, |pair| pair.rate(Side::Other))),
            Figure::new(ratio, "ratio", of(number, Pair::ratio)),
        ]);
    }
    figures
}

/// Measures both sides, on databases that are gone afterwards.
pub(super) fn measure(
    plan: &Plan,
    runtime: &Runtime,
    cluster: &Cluster,
    numbers: &Numbers,
    progress: &mut Progress,
) -> Result<Nodes, Failure> {
    progress.start("three nodes", STEPS.len() as u64);
    let (alone, together) = (database(cluster, "one_node")?, database(cluster, "three_nodes")?);
    let nodes = {
        let one = [Server::shared(&alone)?];
        let first = Server::shared(&together)?;
        let (second, third) = (first.beside(&together)?, first.beside(&together)?);
        let three = [first, second, third];
        let servers_of = |side| -> Vec<&Server> {
            match side {
                Side::Base => one.iter().collect(),
                Side::Other => three.iter().collect(),
            }
        };
        let look = |side| Look::at(&servers_of(side), cluster);
        let compare = |connections: usize| {
            let over = |side, jobs| {
                load::singles_over(runtime, &servers_of(side), connections, "single", jobs, numbers)
            };
            turns::take(plan.singles, over, look)
        };
        let mut pairs = Vec::new();
        for (number, step) in (1..).zip(&STEPS) {
            pairs.push(compare(step.connections)?);
            progress.set(number);
        }
        Nodes(pairs)
    };
    forget(cluster, "one_node")?;
    forget(cluster, "three_nodes")?;
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A pair of which each turn of a thousand jobs takes so many seconds.
    fn pair(one: u64, three: u64) -> Pair {
        let seconds = |side| match side {
            Side::Base => one,
            Side::Other => three,
        };
        let over = |side, jobs| {
            Ok(load::Load { jobs, took: Duration::from_secs(seconds(side)), latency: load::histogram() })
        };
        turns::take(1000, over, |_| Ok(Look::default())).unwrap()
    }

    #[test]
    fn the_best_of_either_side_is_compared_at_whatever_load_it_is() {
        let nodes = Nodes(vec![pair(4, 10), pair(5, 8), pair(8, 5)]);
        assert!((nodes.ratio() - 0.8).abs() < 1e-9, "{}", nodes.ratio());
        assert!((nodes.usual().ratio() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn the_figures_tell_every_load_by_its_connections() {
        let nodes = Nodes(vec![pair(1, 1), pair(2, 2), pair(4, 4)]);
        let told = figures(&[&nodes]);
        for (step, told) in STEPS.iter().zip(told.chunks(3)) {
            assert!(
                told.iter()
                    .all(|figure| figure.name.starts_with(&format!("{} connections, ", step.connections)))
            );
        }
        let rates: Vec<_> = told.chunks(3).map(|told| told[0].median.unwrap().round()).collect();
        assert_eq!(rates, [1000.0, 500.0, 250.0]);
    }
}
