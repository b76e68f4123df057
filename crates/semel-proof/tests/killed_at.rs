//! Killed at one exact system call (fault 2): before the append, in it, before the sync, before the answer, while the
//! store is being made, while keys are being sealed. A retry with the key always gives the same job.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::path::Path;
use std::time::Duration;

use semel_proof::campaign::Campaign;
use semel_proof::child::Running;
use semel_proof::disk::skip;
use semel_proof::injector;
use semel_store_embedded::{EmbeddedStore, Options};

/// A child that never makes the call is stopped after this long, and the round says nothing.
const LIMIT: Duration = Duration::from_secs(30);

/// Starts a child that dies when one of its threads makes `call` for the `when`th time. True if it did.
fn killed_at(campaign: &mut Campaign, call: &str, when: u32, steps: &str) -> bool {
    let mut command = campaign.child(Path::new(env!("CARGO_BIN_EXE_proof-child")));
    command.args(["--steps", steps]);
    let traced = injector::with_fault(&command, call, &format!("{call}:signal=KILL:when={when}"));
    let gone = Running::spawn(traced).unwrap().wait(LIMIT).unwrap();
    campaign.absorb(&gone.history).unwrap();
    gone.was_killed()
}

/// Kills while it works: appends, syncs, answers, and what sealing and dropping keys does to files.
#[test]
fn heavy_killed_at_any_step_of_a_commit() {
    if let Err(why) = injector::available() {
        return skip("killed at a system call", &why);
    }
    let home = tempfile::tempdir().unwrap();
    let mut campaign = Campaign::new(&home.path().join("store"), 21);
    // How a store is made is for the other test.
    assert!(!killed_at(&mut campaign, "rename", 1000, "5"), "nothing is renamed so often");
    let mut kills = 0;
    for (call, times) in [
        ("pwrite64", &[40, 171, 302][..]),
        ("fdatasync", &[9, 21]),
        ("write", &[10, 30, 45]),
        ("rename", &[1]),
        ("fsync", &[1]),
        ("unlink", &[1]),
    ] {
        for &when in times {
            let killed = killed_at(&mut campaign, call, when, "120");
            kills += u32::from(killed);
            let reopened = campaign.reopen().unwrap();
            let report = campaign.judge(&reopened.store).unwrap();
            println!(
                "{call} {when}: killed {killed}, {} operations answered in all, {} breaches",
                report.oks, report.count
            );
            assert_eq!(report.count, 0, "{call} {when}: {report}");
        }
    }
    assert!(kills >= 8, "only {kills} children made the call they were to die in");
    let (report, _) = campaign.finish().unwrap();
    assert_eq!(report.count, 0, "{report}");
}

/// Kills while the store is being made for the first time: the next start makes it, without anybody's help.
#[test]
fn heavy_killed_while_the_store_is_made() {
    if let Err(why) = injector::available() {
        return skip("killed while the store is made", &why);
    }
    for (call, times) in
        [("fdatasync", 1..=9), ("fsync", 1..=2), ("rename", 1..=1), ("unlink", 1..=3), ("pwrite64", 1..=8)]
    {
        for when in times {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("store");
            let mut campaign = Campaign::new(&dir, 22);
            let killed = killed_at(&mut campaign, call, when, "3");
            println!("{call} {when}: killed {killed}");
            let opened = EmbeddedStore::open(&dir, Options::default());
            assert!(opened.is_ok(), "killed at {call} {when}, and then: {}", opened.unwrap_err());
        }
    }
}
