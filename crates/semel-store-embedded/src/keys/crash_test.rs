//! A crash at every step of every kind of background work, and the reopening after it.

use std::path::Path;

use super::upkeep_test::{files, open, row, scratch, settle, small};
use super::*;

/// The rows that exist in the end: 9 and 10 survive the compaction of the run they are in, all up to 8 are retired.
fn rows() -> impl Iterator<Item = u64> + Clone {
    [9, 10].into_iter().chain(13..=42)
}

/// A life with everything in it. It ends early, with `Stopped`, when the background thread is killed on the way; the rows
/// are inserted from where the runs end, as after any crash.
fn life(index: &mut KeyIndex, sealed_to: u64) -> Result<(), KeyIndexError> {
    for id in sealed_to + 1..=42 {
        index.insert(row(id).hash, id)?;
        index.maybe_seal(id)?;
        if id == 12 {
            shrink(index)?;
        }
    }
    settle(index)
}

/// Compacts the run with ids 9 to 12, and retires those below.
fn shrink(index: &mut KeyIndex) -> Result<(), KeyIndexError> {
    index.flush()?;
    if index.runs().iter().any(|run| run.range == IdRange::new(8, 12)) {
        assert!(index.begin_compact(IdRange::new(8, 12), vec![row(9), row(10)])?);
    }
    index.flush()?;
    index.retire(8)
}

fn assert_found(index: &KeyIndex, step: Step) {
    for id in rows() {
        let mut ids = Vec::new();
        index.candidates(row(id).hash, &mut ids).unwrap();
        assert!(ids.contains(&id), "{step:?} lost id {id}");
        assert!(ids.is_sorted_by(|a, b| a > b), "{step:?} doubled or disordered {ids:?}");
    }
    assert!(index.verify(rows().map(row)).unwrap().is_complete(), "{step:?}");
}

/// Reopens after the crash: nothing is damaged or missing, nothing temporary is left.
fn reopen(dir: &Path, step: Step) -> (KeyIndex, u64) {
    let (index, recovery) = open(dir, small());
    assert_eq!(recovery.damaged, [], "{step:?}: a crash is not damage");
    // The life below retires up to 8, so a gap there, seen with the floor at zero, is no loss.
    assert!(recovery.missing.iter().all(|gap| gap.hi <= 8), "{step:?}: {:?}", recovery.missing);
    assert!(files(dir).iter().all(|name| name.ends_with(".run")), "{step:?}");
    (index, recovery.sealed_to)
}

#[test]
fn nothing_is_lost_by_a_crash_at_any_step() {
    for step in Step::all() {
        let dir = scratch();
        let fault = Some(Fault { step, how: How::Kill });
        let (mut index, _) = open(dir.path(), Options { fault, ..small() });
        let ended = life(&mut index, 0);
        assert!(matches!(ended, Err(KeyIndexError::Stopped)), "{step:?} was not reached: {ended:?}");
        drop(index);

        let (mut index, sealed_to) = reopen(dir.path(), step);
        index.retire(8).unwrap();
        life(&mut index, sealed_to).unwrap();
        assert_found(&index, step);
        drop(index);

        let (mut index, sealed_to) = reopen(dir.path(), step);
        index.retire(8).unwrap();
        (sealed_to + 1..=42).for_each(|id| index.insert(row(id).hash, id).unwrap());
        assert_found(&index, step);
    }
}

/// What a crash leaves is searched from memory until the very end: a killed sealer does not make answers wrong.
#[test]
fn lookups_go_on_when_the_background_thread_is_dead() {
    let dir = scratch();
    let fault = Some(Fault { step: Step { work: Work::Seal, stage: Stage::Synced }, how: How::Kill });
    let (mut index, _) = open(dir.path(), Options { fault, ..small() });
    (1..=4).for_each(|id| index.insert(row(id).hash, id).unwrap());
    index.maybe_seal(4).unwrap();
    assert!(matches!(index.flush(), Err(KeyIndexError::Stopped)));
    super::upkeep_test::assert_finds(&index, 1..=4);
}

#[test]
fn closing_with_work_under_way_leaves_nothing_wrong() {
    let dir = scratch();
    for round in 0..50 {
        let (mut index, recovery) = open(dir.path(), small());
        assert_eq!((recovery.damaged, recovery.missing), (vec![], vec![]));
        for id in recovery.sealed_to + 1..=20 * (round + 1) {
            index.insert(row(id).hash, id).unwrap();
            index.maybe_seal(id).unwrap();
        }
        assert!(index.verify((1..=20 * (round + 1)).map(row)).unwrap().is_complete());
    }
}
