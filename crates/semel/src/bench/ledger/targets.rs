//! What the ledger must reach and what it aims for. Changing a number here is changing a promise.

use crate::bench::targets::{Better, Target, Unit};

const fn higher(id: &'static str, title: &'static str, must: f64, aim: f64, how: &'static str) -> Target {
    Target { id, title, unit: Unit::Ratio, better: Better::Higher, must, aim, how }
}

pub(super) const EFFECT: Target = higher(
    "effect_vs_insert",
    "transactional effects/s against the bare insert",
    0.6,
    0.8,
    "16 workers with a connection each: claim, prepared insert and result in one transaction, against BEGIN, the same \
     prepared insert, COMMIT; slices take turns",
);
pub(super) const REPLAY: Target = higher(
    "replay_vs_round_trip",
    "replay from memory against a round trip, times faster",
    50.0,
    500.0,
    "1,000 completed keys in turn, one at a time, against a prepared SELECT 1 over loopback; slices take turns",
);
pub(super) const SEEN: Target = higher(
    "seen_vs_set_nx",
    "seen-set verdicts/s against bare SET NX",
    0.7,
    0.9,
    "16 workers on one shared connection of the same client library, new keys only, the ledger's with its cache and an \
     expiry, the bare ones with neither; names of the same length; slices take turns",
);
pub(super) const PRUNE: Target = Target {
    id: "prune_p99",
    title: "claim p99 while expired rows are pruned, vs without",
    unit: Unit::Ratio,
    better: Better::Lower,
    must: 2.0,
    aim: 1.2,
    how: "16 workers claim new keys on PostgreSQL, 500/s together, before, during and after a prune with the default bite and \
          pause; an act that waited for the one before it counts from when it was due; vacuumed before each part",
};
pub(super) const RELAY: Target = higher(
    "relay_vs_batch",
    "rows relayed/s against batch-of-100 publishes/s",
    0.5,
    0.8,
    "one relay with the default three lanes carries an outbox in PostgreSQL to a server on an embedded store, between two \
     halves of batch publishes to the same server over 16 connections",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_aim_is_better_than_its_must_and_every_title_fits_the_plot() {
        for target in [&EFFECT, &REPLAY, &SEEN, &PRUNE, &RELAY] {
            let better = match target.better {
                Better::Higher => target.aim > target.must,
                Better::Lower => target.aim < target.must,
            };
            assert!(better, "{}", target.id);
            assert!(target.title.len() <= 54, "{}", target.title);
        }
    }
}
