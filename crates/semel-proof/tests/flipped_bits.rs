//! A bit flips somewhere in a file of the store (fault 6): loud or harmless, never a wrong answer.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semel_proof::dice::Dice;
use semel_proof::settings;
use semel_proof::specimen::{Ending, Files, Specimen};
use semel_proof::survey::{Found, Survey};

/// What a flipped bit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The store was not opened, or did not answer.
    Refused,
    /// Every answer was the same.
    Harmless,
    /// Something was missing, and `semel store check` says so.
    Reported,
    /// Answers were different, and nobody said so.
    Silent,
}

fn effect(specimen: &Specimen, files: &Files) -> (Effect, String) {
    let read = match specimen.examine(files) {
        Err(error) => return (Effect::Refused, error.to_string()),
        Ok(survey) if survey == specimen.truth => return (Effect::Harmless, String::new()),
        Ok(survey) => survey,
    };
    let difference = difference(&specimen.truth, &read);
    // A wrong payload is never excused: whoever reads it does not run a check first.
    let reported = !is_wrong(&specimen.truth, &read) && specimen.check_objects(files).unwrap();
    (if reported { Effect::Reported } else { Effect::Silent }, difference)
}

/// Whether a job was read that never was, or with a payload that is not its own.
fn is_wrong(truth: &Survey, read: &Survey) -> bool {
    let wrong = |(id, found): (_, &Found)| {
        truth.jobs.get(id).is_none_or(|job| (job.digest, &job.key) != (found.digest, &found.key))
    };
    read.jobs.iter().any(wrong)
}

fn difference(truth: &Survey, read: &Survey) -> String {
    let changed =
        truth.jobs.iter().filter(|(id, job)| read.jobs.get(id).is_some_and(|found| found != *job)).count();
    let keys = truth.keys.iter().filter(|(key, id)| read.keys.get(key) != Some(id)).count();
    let stats = if truth.stats == read.stats { "the same" } else { "other" };
    let (listed, jobs) = (read.jobs.len(), truth.jobs.len());
    format!(
        "{listed} of {jobs} jobs, {changed} of them changed, {keys} keys lead elsewhere, {stats} counters"
    )
}

/// Where to flip bits in a file: everywhere in its first bytes and its last, and a sample of the rest.
fn places(path: &Path, length: usize, dice: &mut Dice) -> Vec<usize> {
    let name = path.to_string_lossy();
    let (edge, sample) = match () {
        () if name == "semel.db" => (100, 100),
        () if name.ends_with("-wal") => (56, 50),
        () if name.ends_with(".run") => (40, 15),
        () => (8, 8),
    };
    let factor = if settings::is_soak() { 40 } else { 1 };
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
            let (effect, what) = effect(&specimen, &files);
            *effects.entry((path.clone(), effect)).or_default() += 1;
            if effect == Effect::Silent {
                silent.push(format!("{} byte {place} bit {bit:#x}: {what}", path.display()));
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

/// Whole files that are gone or cut short. The log is not cut here: that is `torn_tail.rs`.
#[test]
fn heavy_a_file_that_is_gone_is_not_an_empty_store() {
    for ending in [Ending::Closed, Ending::Killed] {
        let specimen = Specimen::make(ending, 4, 60).unwrap();
        let mut silent = Vec::new();
        for (path, bytes) in &specimen.files {
            for (how, files) in shortened(&specimen.files, path, bytes) {
                let (effect, what) = effect(&specimen, &files);
                println!("{ending:?} {:20} {how}: {effect:?} {what}", path.display());
                if effect == Effect::Silent {
                    silent.push(format!("{ending:?} {} {how}: {what}", path.display()));
                }
            }
        }
        assert!(silent.is_empty(), "silent:\n{}", silent.join("\n"));
    }
}

/// The files with one of them removed, emptied or cut short.
fn shortened(files: &Files, path: &Path, bytes: &[u8]) -> Vec<(String, Files)> {
    let mut without = files.clone();
    without.remove(path);
    let mut all = vec![("removed".to_owned(), without)];
    let is_log = path.ends_with("semel.db-wal");
    for cut in
        [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)].into_iter().filter(|&cut| cut == 0 || !is_log)
    {
        let mut cut_short = files.clone();
        cut_short.insert(path.to_owned(), bytes[..cut.min(bytes.len())].to_vec());
        all.push((format!("cut to {cut} of {} bytes", bytes.len()), cut_short));
    }
    all
}
