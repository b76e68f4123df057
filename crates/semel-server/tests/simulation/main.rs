//! Publishers, a server and workers in one process, on a simulated network and clock, with everything that can go wrong
//! decided by a seed. The histories go to the checker of `semel-proof`.
//!
//! - `SEMEL_SIM_SEEDS=5000` runs that many seeds instead of 200;
//! - `SEMEL_SIM_SEED=123` runs that one seed and prints its history.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod clock;
mod disk;
mod faults;
mod flaw;
mod journal;
mod lanes;
mod ledger;
mod line;
mod net;
mod package;
mod panics;
mod publisher;
mod puller;
mod run;
mod server;
mod turn;
mod webhook;
mod world;

use std::str::FromStr;

use semel_proof::checker::Invariant;

use crate::flaw::Flaw;
use crate::run::{Run, Tally, run};

/// Seeds of a plain run.
const SEEDS: u64 = 200;
/// Answered operations below which even all seeds together prove nothing (I9).
const ENOUGH: u64 = 1000;
/// Seeds within which a broken build must be found.
const SEEDS_FOR_A_FLAW: u64 = 20;

fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// How to see again what a seed did.
fn again(seed: u64) -> String {
    format!("SEMEL_SIM_SEED={seed} cargo nextest run -p semel-server --test simulation heavy_ --no-capture")
}

/// Runs one seed and shows everything.
fn replay(seed: u64) {
    let run = run(seed, Flaw::None);
    println!("{}\n{}\nseed {seed}: {run}", run.history, run.faults.join("\n"));
    assert!(run.holds(), "seed {seed} fails: {run}");
}

/// Runs many seeds. Returns what happened in all of them, and how many failed.
fn run_all(seeds: u64) -> (Tally, u64) {
    let (mut all, mut failed) = (Tally::default(), 0);
    for seed in 0..seeds {
        let run = run(seed, Flaw::None);
        all.add(&run.tally);
        if !run.holds() {
            failed += 1;
            println!("seed {seed} fails: {run}\n  again: {}", again(seed));
        }
    }
    (all, failed)
}

#[test]
fn heavy_whatever_goes_wrong_every_invariant_holds() {
    if let Some(seed) = setting("SEMEL_SIM_SEED") {
        return replay(seed);
    }
    let seeds = setting("SEMEL_SIM_SEEDS").unwrap_or(SEEDS);
    let (all, failed) = run_all(seeds);
    println!("{seeds} seeds: {all:?}");
    assert_eq!(failed, 0, "of {seeds} seeds; each is told above, with the command that replays it");
    assert!(all.answered >= ENOUGH, "I9: {all:?}");
    assert_eq!(all.missing(), <[&str; 0]>::default(), "the simulation no longer meets what it is for");
}

#[test]
fn a_seed_tells_the_same_story_every_time() {
    for seed in 0..5 {
        let (first, second) = (run(seed, Flaw::None), run(seed, Flaw::None));
        assert_eq!(first.faults, second.faults, "seed {seed}");
        if first.history != second.history {
            std::fs::write("/tmp/g-h2", &second.history).unwrap();
        }
        let differ = first.history.lines().zip(second.history.lines()).find(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed} tells another story");
        assert_eq!(first.history.len(), second.history.len(), "seed {seed} breaks off");
    }
}

/// The first seed that finds a flaw.
fn found(flaw: Flaw, is_it: impl Fn(&Run) -> bool) -> Option<u64> {
    (0..SEEDS_FOR_A_FLAW).find(|&seed| is_it(&run(seed, flaw)))
}

#[test]
fn a_store_that_lets_stale_tokens_settle_is_found() {
    let seed = found(Flaw::NoFencing, |run| run.report.breaks(Invariant::I5));
    assert!(seed.is_some(), "no seed found it");
}

#[test]
fn a_store_that_makes_a_second_job_of_a_key_is_found() {
    let seed = found(Flaw::NoDedup, |run| run.report.breaks(Invariant::I3));
    assert!(seed.is_some(), "no seed found it");
}

#[test]
fn workers_without_their_ledger_are_found() {
    let seed = found(Flaw::NoLedger, |run| run.complaints.iter().any(|what| what.starts_with("I4")));
    assert!(seed.is_some(), "no seed found it");
}
