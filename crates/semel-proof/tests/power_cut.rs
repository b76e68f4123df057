//! The power goes while the store works: what had been answered is on the disk (fault 3 of the proof).
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::io;
use std::path::Path;
use std::time::Duration;

use semel_proof::campaign::Campaign;
use semel_proof::checker::{Report, Verdict};
use semel_proof::child::{Gone, Running};
use semel_proof::dice::Dice;
use semel_proof::disk::{Disk, skip};
use semel_proof::settings;
use semel_store::StoreError;

/// A disk of its own for one test, or the reason why this machine has none.
fn disk(home: &Path) -> io::Result<Disk> {
    if !rustix::process::geteuid().is_root() {
        return Err(io::Error::other("needs root to mount ext4 in a file and to cut its power"));
    }
    let mut disk = Disk::ext4(home, 512)?;
    // A kernel that mounts it but does not know the cut would turn this test into a kill loop.
    disk.power_cycle()?;
    Ok(disk)
}

/// One round: work, kill, cut the power, read what the disk kept; an error if that cannot be read.
fn round(campaign: &mut Campaign, disk: &mut Disk, delay: u64, extra: &[&str]) -> Result<Report, StoreError> {
    let mut command = campaign.child(Path::new(env!("CARGO_BIN_EXE_proof-child")));
    command.args(extra);
    let child = Running::spawn(command).unwrap();
    child.first_ok().unwrap();
    let gone = child.kill_after(Duration::from_millis(delay)).unwrap();
    assert!(gone.was_killed(), "the child ended by itself: {}", gone.status);
    read_back(campaign, disk, &gone)
}

/// Cuts the power and reads what the disk kept.
fn read_back(campaign: &mut Campaign, disk: &mut Disk, gone: &Gone) -> Result<Report, StoreError> {
    disk.power_cycle().unwrap();
    campaign.absorb(&gone.history).unwrap();
    let reopened = campaign.reopen()?;
    Ok(campaign.judge(&reopened.store).unwrap())
}

#[test]
fn heavy_power_cut() {
    let rounds = settings::number("SEMEL_POWER_ROUNDS", 5);
    let seed = settings::seed();
    let home = tempfile::tempdir().unwrap();
    let mut disk = match disk(home.path()) {
        Ok(disk) => disk,
        Err(why) => return skip("power cut", &why),
    };
    println!("power cut: {rounds} rounds, SEMEL_SEED={seed}");
    let mut campaign = Campaign::new(&disk.path().join("store"), seed);
    let mut dice = Dice::new(seed);
    for n in 1..=rounds {
        let delay = dice.within(100..=600);
        let report = round(&mut campaign, &mut disk, delay, &[]).unwrap();
        println!(
            "round {n:2}: cut {delay:3} ms after the first answer, {:7} operations answered in all, {} breaches",
            report.oks, report.count
        );
        assert_eq!(report.count, 0, "seed {seed}, round {n}: {report}");
    }
    let (report, drained) = campaign.finish().unwrap();
    println!("drained {} jobs, waited {} times: {report}", drained.jobs, drained.waits);
    assert_eq!(report.verdict(), Verdict::Holds, "seed {seed}: {report}");
}

/// The broken build of this test: a store that does not sync must be caught, or the cut is none. The cut comes while it works, not
/// after it was killed: on a busy machine the kernel may have written everything by then, of its own accord.
#[test]
fn heavy_power_cut_catches_a_store_that_does_not_sync() {
    let home = tempfile::tempdir().unwrap();
    let mut disk = match disk(home.path()) {
        Ok(disk) => disk,
        Err(why) => return skip("power cut of a store that does not sync", &why),
    };
    let mut campaign = Campaign::new(&disk.path().join("store"), 1);
    // A first round that syncs: then there is a store to lose something from.
    assert_eq!(round(&mut campaign, &mut disk, 200, &[]).unwrap().count, 0);
    let mut command = campaign.child(Path::new(env!("CARGO_BIN_EXE_proof-child")));
    command.arg("--no-sync");
    let child = Running::spawn(command).unwrap();
    child.first_ok().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    disk.cut().unwrap();
    let gone = child.kill_after(Duration::ZERO).unwrap();
    match read_back(&mut campaign, &mut disk, &gone) {
        Ok(report) => assert_eq!(report.verdict(), Verdict::Broken, "{report}"),
        // Half of it was written, and the store says so.
        Err(error) => assert!(matches!(error, StoreError::Corrupt(_)), "{error}"),
    }
}
