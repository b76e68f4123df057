//! A bit flips somewhere in a file of the store (fault 6): loud or harmless, never a wrong answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semel_proof::dice::Dice;
use semel_proof::specimen::{Ending, Specimen};
use semel_proof::survey::Survey;
use semel_store::StoreError;

/// What a flipped bit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The store was not opened, or did not answer.
    Refused,
    /// Every answer was the same.
    Harmless,
    /// Answers were different, and nobody said so.
    Silent,
}

fn effect(truth: &Survey, read: &Result<Survey, StoreError>) -> Effect {
    match read {
        Err(_) => Effect::Refused,
        Ok(survey) if survey == truth => Effect::Harmless,
        Ok(_) => Effect::Silent,
    }
}

/// Where to flip bits in a file: everywhere in its first bytes and its last, and a sample of the rest.
fn places(path: &Path, length: usize, dice: &mut Dice) -> Vec<usize> {
    let name = path.to_string_lossy();
    let (edge, sample) = match () {
        () if name == "semel.db" => (100, 200),
        () if name.ends_with("-wal") => (56, 100),
        () if name.ends_with(".run") => (40, 30),
        () => (8, 8),
    };
    let factor = if std::env::var_os("SEMEL_SOAK").is_some() { 20 } else { 1 };
    let mut places: Vec<_> = (0..length.min(edge)).chain(length.saturating_sub(edge)..length).collect();
    places.extend((0..sample * factor).filter(|_| length > 0).map(|_| dice.index(length)));
    places.sort_unstable();
    places.dedup();
    places
}

fn flip_bits(ending: Ending) {
    let specimen = Specimen::make(ending, 3, 60).unwrap();
    let mut dice = Dice::new(11);
    let mut effects: BTreeMap<(PathBuf, Effect), u32> = BTreeMap::new();
    let mut silent = Vec::new();
    for (path, bytes) in &specimen.files {
        for place in places(path, bytes.len(), &mut dice) {
            let mut files = specimen.files.clone();
            let bit = 1 << dice.below(8);
            files.get_mut(path).unwrap()[place] ^= bit;
            let read = specimen.examine(&files);
            let effect = effect(&specimen.truth, &read);
            *effects.entry((path.clone(), effect)).or_default() += 1;
            if effect == Effect::Silent {
                let read = read.unwrap();
                silent.push(format!("{} byte {place} bit {bit:#x}: {} of {} jobs", path.display(), read.jobs.len(), specimen.truth.jobs.len()));
            }
        }
    }
    for ((path, effect), n) in &effects {
        println!("{ending:?} {:20} {effect:?}: {n}", path.display());
    }
    assert!(silent.is_empty(), "{} silent:\n{}", silent.len(), silent.join("\n"));
}

#[test]
fn heavy_a_flipped_bit_in_a_closed_store() {
    flip_bits(Ending::Closed);
}

#[test]
fn heavy_a_flipped_bit_in_a_killed_store() {
    flip_bits(Ending::Killed);
}
