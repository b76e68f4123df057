//! Damage: a flipped byte, a cut file, a missing or a foreign one. It is noticed at open or at the read, never believed.

use std::fs;
use std::path::{Path, PathBuf};

use super::upkeep_test::{assert_finds, files, open, publish, row, scratch, settle, small};
use super::*;

/// Three runs of four, not merged; the path of the middle one.
fn three_runs(dir: &Path) -> PathBuf {
    let (mut index, _) = open(dir, unmerged());
    publish(&mut index, 1..=12);
    index.flush().unwrap();
    dir.join(IdRange::new(4, 8).file_name())
}

fn unmerged() -> Options {
    Options { merge_fan: 100, ..small() }
}

/// Does what an owner does after an open: rebuilds what is missing, inserts what is not sealed.
fn recover(index: &mut KeyIndex, recovery: &Recovery, last: u64) {
    for gap in &recovery.missing {
        let entries: Vec<Entry> = (gap.lo + 1..=gap.hi).map(row).collect();
        index.rebuild_run(*gap, &entries).unwrap();
    }
    publish(index, recovery.sealed_to + 1..=last);
}

/// Opens a directory with one damaged file, and requires that the damage shows and that no answer is wrong.
fn assert_noticed(dir: &Path, what: &str) {
    let (index, recovery) = open(dir, unmerged());
    if recovery.damaged.is_empty() {
        assert!(index.read_run(IdRange::new(4, 8)).is_err(), "{what} went unnoticed");
        assert_eq!(index.damaged(), [IdRange::new(4, 8)], "{what}");
        let mut found = Vec::new();
        for hash in 0..16 {
            let expected: Vec<u64> = (1..=12).rev().filter(|id| row(*id).hash == hash).collect();
            assert!(index.candidates(hash, &mut found).is_err() || found == expected, "{what}: wrong answer");
        }
    } else {
        assert_eq!(recovery.missing, [IdRange::new(4, 8)], "{what}");
        assert!(
            index.candidates(row(1).hash, &mut Vec::new()).is_err(),
            "{what}: answered in spite of the gap"
        );
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let dir = scratch();
    let path = three_runs(dir.path());
    let sound = fs::read(&path).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        assert_noticed(dir.path(), &format!("flipped byte {at}"));
    }
}

#[test]
fn every_truncation_is_noticed() {
    let dir = scratch();
    let path = three_runs(dir.path());
    let sound = fs::read(&path).unwrap();
    for length in 0..sound.len() {
        fs::write(&path, &sound[..length]).unwrap();
        assert_noticed(dir.path(), &format!("cut to {length} bytes"));
    }
    fs::write(&path, [sound.as_slice(), &[0]].concat()).unwrap();
    assert_noticed(dir.path(), "a byte too many");
}

#[test]
fn lookups_are_refused_until_a_gap_is_rebuilt() {
    let dir = scratch();
    fs::remove_file(three_runs(dir.path())).unwrap();
    let (mut index, recovery) = open(dir.path(), unmerged());
    assert_eq!((recovery.sealed_to, &*recovery.missing), (12, &[IdRange::new(4, 8)][..]));
    assert!(matches!(index.candidates(1, &mut Vec::new()), Err(KeyIndexError::Gap(_))));
    let mut maybe = Vec::new();
    index.probe(&[1, 250], &mut maybe);
    assert_eq!(maybe, [true, true], "nothing is certain");

    // In pieces, from the bottom up, and in no other way.
    assert!(index.rebuild_run(IdRange::new(5, 8), &[row(6), row(7), row(8)]).is_err());
    assert!(index.rebuild_run(IdRange::new(4, 9), &[]).is_err());
    index.rebuild_run(IdRange::new(4, 6), &[row(5), row(6)]).unwrap();
    assert!(index.candidates(1, &mut Vec::new()).is_err());
    index.rebuild_run(IdRange::new(6, 8), &[row(7), row(8)]).unwrap();
    assert_finds(&index, 1..=12);
    index.flush().unwrap();
    drop(index);

    let (index, recovery) = open(dir.path(), unmerged());
    assert_eq!(recovery, Recovery { sealed_to: 12, missing: vec![], damaged: vec![] });
    assert_finds(&index, 1..=12);
}

#[test]
fn missing_ends_of_the_chain_are_asked_for() {
    let dir = scratch();
    three_runs(dir.path());
    for lost in [IdRange::new(0, 4), IdRange::new(8, 12)] {
        fs::remove_file(dir.path().join(lost.file_name())).unwrap();
        let (mut index, recovery) = open(dir.path(), unmerged());
        let expected = if lost.lo == 0 { (12, vec![lost]) } else { (8, vec![]) };
        assert_eq!((recovery.sealed_to, recovery.missing.clone()), expected);
        recover(&mut index, &recovery, 12);
        index.flush().unwrap();
        assert_finds(&index, 1..=12);
    }
}

#[test]
fn damage_found_while_running_is_repaired_in_place() {
    let dir = scratch();
    let path = three_runs(dir.path());
    let (mut index, _) = open(dir.path(), unmerged());
    flip(&path, 5_000);
    assert!(index.verify((1..=12).map(row)).is_err());
    assert_eq!(index.damaged(), [IdRange::new(4, 8)]);
    let entries: Vec<Entry> = (5..=8).map(row).collect();
    index.rebuild_run(IdRange::new(4, 8), &entries).unwrap();
    assert_finds(&index, 1..=12);
    index.flush().unwrap();
    assert_eq!((index.damaged(), index.runs().len()), (vec![], 3));
    assert_finds(&index, 1..=12);
    drop(index);
    assert_finds(&open(dir.path(), unmerged()).0, 1..=12);
}

#[test]
fn a_damaged_run_is_not_merged_into_a_sound_one() {
    let dir = scratch();
    let path = three_runs(dir.path());
    flip(&path, 5_000);
    let (mut index, _) = open(dir.path(), small());
    settle(&mut index).unwrap();
    assert_eq!(
        (index.failures(), index.damaged()),
        (1, vec![IdRange::new(4, 8)]),
        "the merge has met the damage"
    );
    publish(&mut index, 13..=24);
    settle(&mut index).unwrap();
    let first: Vec<u64> = index.runs().iter().map(|run| run.range.hi).take(2).collect();
    assert_eq!(first, [4, 8], "the damaged run and its neighbour below are as they were");
    assert!(index.verify((9..=24).map(row)).unwrap().is_complete());

    let entries: Vec<Entry> = (5..=8).map(row).collect();
    index.rebuild_run(IdRange::new(4, 8), &entries).unwrap();
    settle(&mut index).unwrap();
    assert_finds(&index, 1..=24);
    assert_eq!(index.damaged(), []);
}

/// A merge over a gap would claim to cover it.
#[test]
fn runs_are_not_merged_across_a_gap() {
    let dir = scratch();
    fs::remove_file(three_runs(dir.path())).unwrap();
    let (mut index, recovery) = open(dir.path(), Options { merge_fan: 2, ..small() });
    settle(&mut index).unwrap();
    assert_eq!(index.runs().len(), 2);
    recover(&mut index, &recovery, 12);
    settle(&mut index).unwrap();
    assert_finds(&index, 1..=12);
    assert!(index.runs().len() < 3, "now they are");
}

/// A run is rebuilt because something is wrong with it; a merge that has read it before must not bring that back.
#[test]
fn a_rebuild_waits_for_a_merge_under_way() {
    let dir = scratch();
    three_runs(dir.path());
    let (mut index, _) = open(dir.path(), small());
    index.poll().unwrap();
    let rebuilt = index.rebuild_run(IdRange::new(4, 8), &[row(5)]);
    assert!(matches!(rebuilt, Err(KeyIndexError::BadRange { .. })), "the run is part of a larger one now");
    assert_finds(&index, 1..=12);
}

#[test]
fn nothing_is_read_beyond_a_damaged_block() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), Options { run_keys: 10_000, ..small() });
    publish(&mut index, 1..=10_000);
    index.flush().unwrap();
    let range = index.runs()[0].range;
    flip(&dir.path().join(range.file_name()), 4_096 * 5);
    let mut entries = index.run_entries(range).unwrap();
    assert!(entries.next().unwrap().is_err());
    assert!(entries.next().is_none(), "a part would be taken for the whole");
}

#[test]
fn of_two_runs_that_overlap_the_later_is_not_believed() {
    let dir = scratch();
    three_runs(dir.path());
    let other = scratch();
    let (mut index, _) = KeyIndex::open(other.path(), unmerged(), 6).unwrap();
    publish(&mut index, 7..=10);
    index.flush().unwrap();
    let stray = IdRange::new(6, 10).file_name();
    fs::copy(other.path().join(&stray), dir.path().join(&stray)).unwrap();

    let (index, recovery) = open(dir.path(), unmerged());
    assert_eq!(recovery.damaged.len(), 1);
    assert_eq!(recovery.damaged[0].range, Some(IdRange::new(6, 10)));
    assert!(recovery.damaged[0].what.contains("overlaps"));
    assert_finds(&index, 1..=12);
}

#[test]
fn a_run_inside_another_is_what_a_merge_left() {
    let dir = scratch();
    let middle = three_runs(dir.path());
    let kept = fs::read(&middle).unwrap();
    let (mut index, _) = open(dir.path(), small());
    settle(&mut index).unwrap();
    assert_eq!(files(dir.path()).len(), 1);
    drop(index);
    fs::write(&middle, kept).unwrap();

    let (index, recovery) = open(dir.path(), small());
    assert_eq!(recovery, Recovery { sealed_to: 12, missing: vec![], damaged: vec![] });
    assert_eq!(files(dir.path()).len(), 1);
    assert_finds(&index, 1..=12);
}

/// The merged file is bad, the files it was made from are still there: they are used.
#[test]
fn a_damaged_merge_falls_back_on_its_inputs() {
    let dir = scratch();
    let fault = Some(Fault { step: Step { work: Work::Drop, stage: Stage::BeforeUnlink }, how: How::Kill });
    three_runs(dir.path());
    let (mut index, _) = open(dir.path(), Options { fault, ..small() });
    assert!(settle(&mut index).is_err());
    drop(index);
    assert_eq!(files(dir.path()).len(), 4);
    flip(&dir.path().join(IdRange::new(0, 12).file_name()), 100);

    let (index, recovery) = open(dir.path(), unmerged());
    assert_eq!((recovery.damaged.len(), recovery.missing), (1, vec![]));
    assert_finds(&index, 1..=12);
}

#[test]
fn runs_of_another_secret_or_name_are_not_believed() {
    let dir = scratch();
    let path = three_runs(dir.path());
    let foreign = dir.path().join("backup of yesterday.run");
    fs::copy(&path, &foreign).unwrap();
    let (index, recovery) = open(dir.path(), unmerged());
    assert_eq!((recovery.damaged.len(), recovery.damaged[0].range), (1, None));
    assert_finds(&index, 1..=12);
    drop(index);

    let other = Options::new(&KeyHasher::with_bits([10; 16], 8));
    let (_, recovery) = KeyIndex::open(dir.path(), other, 0).unwrap();
    assert_eq!((recovery.damaged.len(), recovery.sealed_to), (3, 0));
    assert!(recovery.damaged[0].what.contains("secret"));
}

#[test]
fn wiping_starts_over() {
    let dir = scratch();
    three_runs(dir.path());
    KeyIndex::wipe(dir.path()).unwrap();
    let (mut index, recovery) = open(dir.path(), unmerged());
    assert_eq!(recovery, Recovery { sealed_to: 0, missing: vec![], damaged: vec![] });
    recover(&mut index, &recovery, 12);
    assert_finds(&index, 1..=12);
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}
