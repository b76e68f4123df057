//! What the server must reach on PostgreSQL and what it aims for. Changing a number here is changing a promise.

use super::super::super::targets::{Better, Target, Unit};

const fn higher(id: &'static str, title: &'static str, must: f64, aim: f64, how: &'static str) -> Target {
    Target { id, title, unit: Unit::Ratio, better: Better::Higher, must, aim, how }
}

pub(super) const SINGLE: Target = higher(
    "single_vs_sql",
    "single publishes/s against hand-written SQL",
    0.35,
    0.60,
    "64 connections, one request under way on each; the limit inserts 100 rows per transaction with unnest, each \
     with its own key and payload, on 4 connections to the same PostgreSQL, in slices that alternate",
);
pub(super) const BATCHES: Target = higher(
    "batch_vs_sql",
    "batch-of-100 publishes/s against hand-written SQL",
    0.60,
    0.85,
    "16 connections, against the same limit",
);
pub(super) const PULL: Target = higher(
    "pull_vs_sql",
    "end to end, pull: completed/s vs the limit's life",
    0.50,
    0.75,
    "4 publishers of batches of 100 and 4 workers that lease 50 and settle 50; the limit inserts 100, claims 100 with SKIP \
     LOCKED and completes 100, on as many connections; the tables of both are analyzed before",
);
pub(super) const NODES: Target = higher(
    "three_vs_one",
    "three nodes against one, same PostgreSQL",
    1.0,
    1.3,
    "single publishes, the best of 64, 192 and 384 connections that all go to one server, and the best of as many spread over three, \
     each side on a database of its own in the same PostgreSQL, in six slices that alternate for each load; every load is among the \
     figures behind it",
);
pub(super) const FULL: Target = higher(
    "full_vs_empty",
    "publishes/s with many keys present against empty",
    0.7,
    0.9,
    "single publishes on an empty store and on one with so many keys, a node and a database each on the same PostgreSQL, in six slices \
     that alternate, keys in no order, past the checkpoint that filling them in ends with; 10,000,000 keys unless the plan says \
     otherwise",
);
pub(super) const IDLE: Target = Target {
    id: "idle_statements",
    title: "statements per second of an idle node",
    unit: Unit::Ratio,
    better: Better::Lower,
    must: 5.0,
    aim: 1.0,
    how: "calls counted by pg_stat_statements over the span, one node with ten queues and no work, its own count left out",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_aim_is_better_than_its_must_and_every_title_fits_the_plot() {
        for target in [&SINGLE, &BATCHES, &PULL, &NODES, &FULL, &IDLE] {
            let better = match target.better {
                Better::Higher => target.aim > target.must,
                Better::Lower => target.aim < target.must,
            };
            assert!(better, "{}", target.id);
            assert!(target.title.len() <= 54, "{}", target.title);
        }
    }
}
