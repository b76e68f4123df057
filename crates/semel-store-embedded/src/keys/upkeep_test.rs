//! The life of entries in order: frozen when durable, sealed, merged, compacted, retired, checked.

use std::fs;
use std::path::Path;

use super::*;

/// A directory in memory where there is one: these tests sync thousands of times, and it is the order that matters to them.
pub(super) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(super) fn hasher() -> KeyHasher {
    KeyHasher::with_bits([9; 16], 8)
}

/// Small enough that a handful of entries goes through everything.
pub(super) fn small() -> Options {
    Options { run_keys: 4, merge_fan: 3, max_run_keys: 36, max_frozen: 2, ..Options::new(&hasher()) }
}

pub(super) fn open(dir: &Path, options: Options) -> (KeyIndex, Recovery) {
    KeyIndex::open(dir, options, 0).unwrap()
}

/// Row `id` of the tests' truth has this entry.
pub(super) fn row(id: u64) -> Entry {
    Entry { hash: (id * 37) % 16, id }
}

/// Inserts rows and seals them, four a run.
pub(super) fn publish(index: &mut KeyIndex, ids: std::ops::RangeInclusive<u64>) {
    for id in ids {
        index.insert(row(id).hash, id).unwrap();
        index.maybe_seal(id).unwrap();
    }
}

/// Lets all background work come to rest, merges included.
pub(super) fn settle(index: &mut KeyIndex) -> Result<(), KeyIndexError> {
    loop {
        index.flush()?;
        index.poll()?;
        if index.is_idle() {
            return Ok(());
        }
    }
}

pub(super) fn ids(index: &KeyIndex, hash: u64) -> Vec<u64> {
    let mut ids = Vec::new();
    index.candidates(hash, &mut ids).unwrap();
    ids
}

/// Every one of the rows is found, and nothing that was never inserted.
pub(super) fn assert_finds(index: &KeyIndex, rows: impl Iterator<Item = u64> + Clone) {
    for hash in 0..16 {
        let mut expected: Vec<u64> = rows.clone().filter(|id| row(*id).hash == hash).collect();
        expected.reverse();
        assert_eq!(ids(index, hash), expected, "hash {hash}");
    }
    assert!(index.verify(rows.map(row)).unwrap().is_complete());
}

pub(super) fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn ranges(index: &KeyIndex) -> Vec<(u64, u64)> {
    index.runs().iter().map(|run| (run.range.lo, run.range.hi)).collect()
}

#[test]
fn only_what_is_durable_is_sealed() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    (1..=10).for_each(|id| index.insert(row(id).hash, id).unwrap());
    assert!(!index.maybe_seal(0).unwrap(), "nothing is durable yet");
    assert!(index.maybe_seal(6).unwrap());
    index.flush().unwrap();
    assert_eq!(ranges(&index), [(0, 6)]);
    assert_finds(&index, 1..=10);
    drop(index);

    let (index, recovery) = open(dir.path(), small());
    assert_eq!(recovery, Recovery { sealed_to: 6, missing: vec![], damaged: vec![] });
    assert_finds(&index, 1..=6);
}

#[test]
fn rows_without_keys_are_covered_once_they_were_offered() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    publish(&mut index, 1..=3);
    assert!(index.seal(100).unwrap());
    assert_eq!(index.frozen_to(), 3, "rows 4 to 100 may still come");
    index.advance(100);
    assert!(index.seal(100).unwrap());
    assert!(!index.seal(100).unwrap(), "there is nothing left");
    index.flush().unwrap();
    assert_eq!(ranges(&index), [(0, 3), (3, 100)]);
    assert_finds(&index, 1..=3);
}

#[test]
fn a_batch_rolled_back_leaves_no_trace() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    publish(&mut index, 1..=2);
    (3..=9).for_each(|id| index.insert(row(id).hash, id).unwrap());
    index.truncate_above(2);
    assert_finds(&index, 1..=2);
    assert!(index.seal(9).unwrap());
    assert_eq!(index.frozen_to(), 2, "what was rolled back was not offered");
}

#[test]
fn an_id_that_was_offered_before_is_refused() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    publish(&mut index, 1..=4);
    index.advance(6);
    for id in [4, 6] {
        assert!(matches!(index.insert(1, id), Err(KeyIndexError::OutOfOrder { offered_to: 6, .. })));
    }
    index.insert(1, 7).unwrap();
}

#[test]
fn runs_are_merged_and_the_old_files_go() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    for last in (4..=40).step_by(4) {
        publish(&mut index, last - 3..=last);
        settle(&mut index).unwrap();
    }
    assert_eq!(ranges(&index), [(0, 36), (36, 40)]);
    let names: Vec<String> = index.runs().iter().map(|run| run.range.file_name()).collect();
    assert_eq!(files(dir.path()), names);
    assert_finds(&index, 1..=40);
    drop(index);
    assert_finds(&open(dir.path(), small()).0, 1..=40);
}

#[test]
fn retired_runs_are_unlinked() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), Options { merge_fan: 100, ..small() });
    publish(&mut index, 1..=20);
    index.retire(11).unwrap();
    index.flush().unwrap();
    index.retire(11).unwrap();
    index.flush().unwrap();
    assert_eq!(ranges(&index), [(8, 12), (12, 16), (16, 20)], "id 12 is still there");
    assert_eq!(files(dir.path()).len(), 3);
    assert_finds(&index, 9..=20);
    drop(index);

    let (index, recovery) = KeyIndex::open(dir.path(), small(), 17).unwrap();
    assert_eq!((recovery.sealed_to, recovery.missing), (20, vec![]));
    assert_eq!(ranges(&index), [(16, 20)]);
    assert_eq!(files(dir.path()).len(), 1, "the open has swept the rest");
}

#[test]
fn a_map_retired_while_it_is_sealed_is_dropped_too() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    publish(&mut index, 1..=8);
    index.retire(8).unwrap();
    settle(&mut index).unwrap();
    assert_eq!((ranges(&index), files(dir.path()).len()), (vec![], 0));
}

#[test]
fn compaction_keeps_the_survivors_under_the_same_name() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    publish(&mut index, 1..=8);
    index.flush().unwrap();
    let (before, range) = (files(dir.path()), index.runs()[0].range);
    assert!(index.begin_compact(range, vec![row(3)]).unwrap());
    assert!(!index.begin_compact(range, vec![row(3)]).unwrap(), "one at a time");
    assert_finds(&index, 1..=8);
    index.flush().unwrap();
    assert_finds(&index, [3, 5, 6, 7, 8].into_iter());
    assert_eq!(index.read_run(range).unwrap(), [row(3)]);
    assert_eq!(files(dir.path()), before);

    assert!(index.begin_compact(range, vec![]).unwrap());
    index.flush().unwrap();
    drop(index);
    let (index, recovery) = open(dir.path(), small());
    assert_eq!((recovery.sealed_to, recovery.missing), (8, vec![]), "an empty run still covers its range");
    assert_finds(&index, 5..=8);
}

#[test]
fn compaction_refuses_what_does_not_fit() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    publish(&mut index, 1..=8);
    index.flush().unwrap();
    let foreign = index.begin_compact(IdRange::new(0, 4), vec![row(5)]);
    assert!(matches!(foreign, Err(KeyIndexError::BadRange { .. })));
    let unknown = index.begin_compact(IdRange::new(0, 3), vec![]);
    assert!(matches!(unknown, Err(KeyIndexError::BadRange { .. })));
}

#[test]
fn work_that_fails_loses_nothing_and_is_done_later() {
    let failing = Step::all().filter(|step| step.work == Work::Seal);
    for step in failing {
        let dir = scratch();
        let fault = Some(Fault { step, how: How::Fail });
        let (mut index, _) = open(dir.path(), Options { fault, merge_fan: 100, ..small() });
        publish(&mut index, 1..=4);
        assert!(index.flush().is_err(), "{step:?}");
        assert_eq!((index.failures(), index.runs().len()), (1, 0));
        assert_finds(&index, 1..=4);
        assert!(files(dir.path()).iter().all(|name| !name.ends_with(".tmp")), "the space is given back");

        publish(&mut index, 5..=8);
        index.flush().unwrap();
        assert_eq!(ranges(&index), [(0, 4), (4, 8)]);
        assert_finds(&index, 1..=8);
    }
}

/// A merge whose name could not be made durable is not used; were its file left, it would overlap the next merge.
#[test]
fn a_merge_that_fails_late_leaves_no_file() {
    let dir = scratch();
    let fault = Some(Fault { step: Step { work: Work::Merge, stage: Stage::Renamed }, how: How::Fail });
    let (mut index, _) = open(dir.path(), Options { fault, ..small() });
    publish(&mut index, 1..=12);
    index.flush().unwrap();
    index.poll().unwrap();
    index.flush().unwrap();
    assert_eq!((index.failures(), files(dir.path()).len()), (1, 3));
    publish(&mut index, 13..=16);
    settle(&mut index).unwrap();
    assert_eq!(ranges(&index), [(0, 4), (4, 16)]);
    drop(index);
    let (index, recovery) = open(dir.path(), small());
    assert_eq!(recovery, Recovery { sealed_to: 16, missing: vec![], damaged: vec![] });
    assert_finds(&index, 1..=16);
}

#[test]
fn memory_stays_bounded_when_nothing_can_be_sealed() {
    let dir = scratch();
    let gone = dir.path().join("keys");
    let (mut index, _) = open(&gone, small());
    fs::remove_dir(&gone).unwrap();
    publish(&mut index, 1..=11);
    index.insert(row(12).hash, 12).unwrap();
    assert!(matches!(index.maybe_seal(12), Err(KeyIndexError::Io { .. })), "two maps are waiting already");
    assert_finds(&index, 1..=12);

    fs::create_dir(&gone).unwrap();
    while index.maybe_seal(12).is_err() {}
    index.flush().unwrap();
    assert_eq!(ranges(&index), [(0, 4), (4, 8), (8, 12)]);
    assert_finds(&index, 1..=12);
}

#[test]
fn a_visit_stops_where_it_is_told_to_and_reads_no_further() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    for id in 1..=5 {
        index.insert(7, id).unwrap();
        index.maybe_seal(id).unwrap();
    }
    index.flush().unwrap();
    // The run is damaged behind the index's back; the newest id is in memory and found without it.
    let path = dir.path().join(IdRange::new(0, 4).file_name());
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(4_096).unwrap();
    let first = index.visit(7, std::ops::ControlFlow::Break).unwrap();
    assert_eq!(first, std::ops::ControlFlow::Break(5));
    let second = index.visit(7, |id| if id == 5 { Continue(()) } else { Break(id) });
    assert!(matches!(second, Err(KeyIndexError::Corrupt { .. })));
}

use std::ops::ControlFlow::{Break, Continue};

#[test]
fn a_probe_never_denies_what_is_there() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    publish(&mut index, 1..=30);
    settle(&mut index).unwrap();
    index.insert(200, 31).unwrap();
    let hashes: Vec<u64> = (0..256).collect();
    let mut maybe = Vec::new();
    index.probe(&hashes, &mut maybe);
    for (hash, maybe) in hashes.iter().zip(&maybe) {
        assert!(*maybe || ids(&index, *hash).is_empty(), "hash {hash}");
    }
    let sure = maybe.iter().filter(|maybe| !**maybe).count();
    assert!(sure > 200, "most of the 239 absent hashes are denied for sure, not {sure}");
}

#[test]
fn a_build_that_loses_entries_is_caught() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), Options { lose_one_in: Some(4), ..small() });
    publish(&mut index, 1..=41);
    settle(&mut index).unwrap();
    let verified = index.verify((1..=41).map(row)).unwrap();
    assert_eq!((verified.checked, verified.missing, verified.examples.len()), (41, 10, 10));
    assert!(!verified.is_complete());
    assert!(verified.examples.iter().all(|lost| !ids(&index, lost.hash).contains(&lost.id)));
}

#[test]
fn a_check_counts_what_is_garbage_and_names_what_is_missing() {
    let dir = scratch();
    let (mut index, _) = open(dir.path(), small());
    publish(&mut index, 1..=21);
    settle(&mut index).unwrap();
    let verified = index.verify((5..=21).map(row)).unwrap();
    assert_eq!((verified.is_complete(), verified.garbage), (true, 4));
    let stranger = Entry { hash: 3, id: 22 };
    let verified = index.verify([row(1), stranger, Entry { hash: row(1).hash, id: 2 }]).unwrap();
    assert_eq!((verified.missing, verified.examples[0]), (2, stranger));
}

#[test]
fn the_index_can_be_shared_for_lookups() {
    fn shareable<T: Send + Sync>() {}
    shareable::<KeyIndex>();
}

#[test]
fn memory_is_the_filters_and_the_maps() {
    let dir = scratch();
    let options = Options { run_keys: 10_000, max_frozen: 1, ..Options::new(&KeyHasher::new([1; 16])) };
    let (mut index, _) = open(dir.path(), options);
    let empty = index.memory_bytes();
    for id in 1..=100_000 {
        index.insert(KeyHasher::new([1; 16]).hash(0, &id.to_string()), id).unwrap();
        index.maybe_seal(id).unwrap();
    }
    settle(&mut index).unwrap();
    let grown = index.memory_bytes() - empty;
    assert!((200_000..210_000).contains(&grown), "two bytes a key, and the fences: {grown}");
}
