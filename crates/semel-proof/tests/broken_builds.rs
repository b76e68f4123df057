//! For each invariant, stores that break it: a checker that never objects proves nothing.
//!
//! The store that does not sync is caught in `power_cut.rs`, because only a power cut shows it.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod broken;

use std::path::Path;
use std::sync::Arc;

use broken::{Broken, Flaw};
use semel_proof::checker::Invariant::{self, I1, I2, I3, I5, I6, I7};
use semel_proof::checker::{Report, Verdict};
use semel_proof::trial;
use semel_store::{Clock, MemoryStore, Store};
use semel_store_embedded::{EmbeddedStore, Options, Sabotage};

const STEPS: u64 = 250;

fn embedded(dir: &Path, clock: Arc<dyn Clock>, sabotage: Option<Sabotage>) -> Arc<dyn Store> {
    // Short runs, so that keys are found through sealed ones too.
    let options = Options { clock, run_keys: 500, sabotage, ..Options::default() };
    Arc::new(EmbeddedStore::open(dir, options).unwrap())
}

fn catches(flaw: Flaw, invariant: Invariant) {
    for seed in 1..=2 {
        let report =
            trial::run(|clock| Broken::over(Arc::new(MemoryStore::new(clock)), flaw), seed, STEPS).unwrap();
        assert!(report.breaks(invariant), "{flaw:?} with seed {seed} was not caught: {report}");
    }
}

fn sabotaged(sabotage: Sabotage) -> Report {
    let home = tempfile::tempdir().unwrap();
    trial::run(|clock| embedded(home.path(), clock, Some(sabotage)), 1, STEPS).unwrap()
}

#[test]
fn a_good_memory_store_holds() {
    for seed in 1..=4 {
        let report = trial::run(|clock| Arc::new(MemoryStore::new(clock)), seed, STEPS).unwrap();
        assert_eq!(report.verdict(), Verdict::Holds, "seed {seed}: {report}");
    }
}

#[test]
fn a_good_embedded_store_holds() {
    for seed in 1..=3 {
        let home = tempfile::tempdir().unwrap();
        let report = trial::run(|clock| embedded(home.path(), clock, None), seed, STEPS).unwrap();
        assert_eq!(report.verdict(), Verdict::Holds, "seed {seed}: {report}");
    }
}

#[test]
fn a_store_that_forgets_publishes_is_caught() {
    catches(Flaw::ForgetsPublishes, I1);
}

#[test]
fn a_store_that_forgets_acks_is_caught() {
    catches(Flaw::ForgetsAcks, I1);
}

#[test]
fn a_store_that_cancels_by_itself_is_caught() {
    catches(Flaw::CancelsByItself, I1);
}

#[test]
fn a_store_that_invents_jobs_is_caught() {
    catches(Flaw::Invents, I2);
}

#[test]
fn a_store_that_mixes_payloads_is_caught() {
    catches(Flaw::MixesPayloads, I2);
}

#[test]
fn a_store_without_dedup_is_caught() {
    catches(Flaw::NoDedup, I3);
    let report = sabotaged(Sabotage::NoDedup);
    assert!(report.breaks(I3), "{report}");
}

#[test]
fn a_store_that_loses_keys_is_caught() {
    catches(Flaw::LosesKeys, I3);
    let report = sabotaged(Sabotage::LoseIndexEntry);
    assert!(report.breaks(I3), "{report}");
}

#[test]
fn a_store_without_fencing_is_caught() {
    catches(Flaw::NoFencing, I5);
    let report = sabotaged(Sabotage::NoFencing);
    assert!(report.breaks(I5), "{report}");
}

#[test]
fn a_store_that_reuses_tokens_is_caught() {
    catches(Flaw::ReusesTokens, I5);
}

#[test]
fn a_store_that_delivers_early_is_caught() {
    catches(Flaw::Early, I6);
}

#[test]
fn a_store_that_burns_attempts_on_backpressure_is_caught() {
    catches(Flaw::BurnsOnDefer, I6);
}

#[test]
fn a_store_that_exceeds_the_cap_is_caught() {
    catches(Flaw::Uncapped, I6);
}

#[test]
fn a_store_that_ends_leases_early_is_caught() {
    catches(Flaw::EndsLeasesEarly, I6);
}

#[test]
fn a_store_that_miscounts_is_caught() {
    catches(Flaw::Miscounts, I7);
}
