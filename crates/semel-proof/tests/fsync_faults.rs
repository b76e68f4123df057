//! A disk whose syncs fail or are slow (faults 7 and 9 of the proof).
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use semel_proof::campaign::Campaign;
use semel_proof::child::{Gone, Running};
use semel_proof::disk::skip;
use semel_proof::history::{Call, Entry, Op};
use semel_proof::injector;

/// What `proof-child` exits with when the store takes no more writes.
const STORE_FAILED: i32 = 3;
/// A child that goes on after the fault is stopped after this long.
const LIMIT: Duration = Duration::from_secs(60);

fn run(campaign: &mut Campaign, extra: &[&str], inject: &str) -> Gone {
    let mut command = campaign.child(Path::new(env!("CARGO_BIN_EXE_proof-child")));
    command.args(extra);
    let traced = injector::with_fault(&command, "fdatasync,fsync", inject);
    let gone = Running::spawn(traced).unwrap().wait(LIMIT).unwrap();
    campaign.absorb(&gone.history).unwrap();
    gone
}

/// The lines of a history, as far as they were written out.
fn entries(history: &str) -> Vec<Entry> {
    history.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect()
}

/// Writes that were sent after the first failure and answered all the same.
fn written_after_failure(history: &str) -> Vec<Op> {
    let (mut failed, mut later, mut written) = (false, HashSet::new(), Vec::new());
    for entry in entries(history) {
        match entry {
            Entry::Unknown { .. } => failed = true,
            Entry::Fail { why, .. } => failed |= why.contains("has failed"),
            Entry::Invoke { op, call, .. } if failed && !matches!(call, Call::Lease { .. }) => {
                later.insert(op);
            }
            Entry::Ok { op, .. } if later.contains(&op) => written.push(op),
            _ => {}
        }
    }
    written
}

fn assert_nothing_lost(campaign: &Campaign, what: &str) {
    let reopened = campaign.reopen().unwrap();
    let report = campaign.judge(&reopened.store).unwrap();
    println!("{what}: {report}");
    assert_eq!(report.count, 0, "{what}: {report}");
}

/// A sync fails once and would work again: the store must not believe it, because the kernel may have thrown the pages away.
#[test]
fn heavy_a_failed_sync_stops_the_store() {
    if let Err(why) = injector::available() {
        return skip("failed sync", &why);
    }
    let home = tempfile::tempdir().unwrap();
    let mut campaign = Campaign::new(&home.path().join("store"), 7);
    for when in [12, 40, 25] {
        let gone = run(&mut campaign, &[], &format!("fdatasync:error=EIO:when={when}"));
        assert_eq!(
            gone.status.code(),
            Some(STORE_FAILED),
            "sync {when} failed, and the child went on: {}",
            gone.status
        );
        assert_eq!(
            written_after_failure(&gone.history),
            Vec::<Op>::new(),
            "sync {when} failed, and the store went on writing"
        );
        assert_nothing_lost(&campaign, &format!("sync {when} failed"));
    }
    let (report, _) = campaign.finish().unwrap();
    assert_eq!(report.count, 0, "{report}");
}

/// A sync that fails while the store is being opened, or made: it is refused, and the next open finds it whole.
#[test]
fn heavy_a_failed_sync_at_the_start_is_a_refusal() {
    if let Err(why) = injector::available() {
        return skip("failed sync at the start", &why);
    }
    for (call, when) in [("fdatasync", 1), ("fdatasync", 2), ("fdatasync", 3), ("fsync", 1), ("fsync", 2)] {
        let home = tempfile::tempdir().unwrap();
        let mut campaign = Campaign::new(&home.path().join("store"), 8);
        let gone = run(&mut campaign, &["--steps", "5"], &format!("{call}:error=EIO:when={when}"));
        assert_eq!(written_after_failure(&gone.history), Vec::<Op>::new(), "{call} {when}");
        assert_nothing_lost(
            &campaign,
            &format!("{call} {when} failed, the child ended with {}", gone.status),
        );
    }
}

/// The key index is sealed beside the log: whatever a failed sync does to it, keys must still lead to their jobs.
#[test]
fn heavy_a_failed_sync_of_the_key_index_loses_no_key() {
    if let Err(why) = injector::available() {
        return skip("failed sync of the key index", &why);
    }
    let home = tempfile::tempdir().unwrap();
    let mut campaign = Campaign::new(&home.path().join("store"), 9);
    for (call, when) in [("fsync", "4"), ("fsync", "6+2"), ("fdatasync,fsync", "70")] {
        let inject = format!("{call}:error=EIO:when={when}");
        let gone = run(&mut campaign, &["--steps", "60"], &inject);
        assert_nothing_lost(
            &campaign,
            &format!("{call} {when} failed, the child ended with {}", gone.status),
        );
    }
    let (report, _) = campaign.finish().unwrap();
    assert_eq!(report.count, 0, "{report}");
}

/// A slow disk makes a slow store, and nothing else: everybody is answered, in bounded time.
#[test]
fn heavy_slow_syncs_are_waited_for() {
    if let Err(why) = injector::available() {
        return skip("slow sync", &why);
    }
    let home = tempfile::tempdir().unwrap();
    let mut campaign = Campaign::new(&home.path().join("store"), 10);
    let began = Instant::now();
    let gone = run(&mut campaign, &["--steps", "25"], "fdatasync:delay_enter=200000");
    println!("slow syncs: {:?}", began.elapsed());
    assert_eq!(gone.status.code(), Some(0), "the child did not finish: {}", gone.status);
    assert!(
        entries(&gone.history).iter().all(|e| !matches!(e, Entry::Unknown { .. })),
        "a slow answer is an answer"
    );
    assert_nothing_lost(&campaign, "every sync took 200 ms");
}
