//! One node against three.
//!
//! Each side has nodes and a database of its own on the same PostgreSQL: neither inherits what the other wrote, or what nodes
//! remember of each other.

use semel_cluster::Cluster;
use tokio::runtime::Runtime;

use super::super::load::{self, Numbers};
use super::super::server::Server;
use super::Plan;
use super::rounds::{database, forget};
use super::spent::Look;
use super::turns::{self, Pair, Side};
use crate::failure::Failure;
use crate::progress::Progress;

/// What three nodes publish per second, against one.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Over 64 connections in all, on either side.
    pub(super) usual: Pair,
    /// Over three times as many, on either side.
    pub(super) loaded: Pair,
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
        let usual = compare(load::CONNECTIONS)?;
        progress.set(1);
        Nodes { usual, loaded: compare(3 * load::CONNECTIONS)? }
    };
    forget(cluster, "one_node")?;
    forget(cluster, "three_nodes")?;
    Ok(nodes)
}
