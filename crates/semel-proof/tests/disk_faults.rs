//! A disk that is full, a directory that cannot be written, a directory that somebody else has (faults 8 and 10).
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_core::ids::JobId;
use semel_core::lease::LeaseRequest;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::refusal::Refusal;
use semel_core::settle::{Report, Settle};
use semel_proof::child::Running;
use semel_proof::disk::{Disk, skip};
use semel_proof::workload::block_on;
use semel_store::{Command, Reply, Store, StoreError};
use semel_store_embedded::{EmbeddedStore, Options};

const MEGABYTE: u64 = 1 << 20;

fn queue() -> QueueName {
    QueueName::try_from("q").unwrap()
}

fn open(dir: &Path, reserve_bytes: u64) -> Result<Arc<dyn Store>, StoreError> {
    let options = Options { reserve_bytes, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir, options)?);
    block_on(
        store.apply(vec![Command::PutQueue { name: queue(), config: Box::new(QueueConfig::default()) }]),
    )?;
    Ok(store)
}

/// Publishes a few jobs of a hundred kilobytes each; `None` if there is no room.
fn publish(store: &Arc<dyn Store>) -> Option<Vec<JobId>> {
    let payload = Payload::from_json(format!("\"{}\"", "x".repeat(100_000))).unwrap();
    let jobs = (0..4).map(|_| Command::Publish(Draft::new(queue(), payload.clone()).check().unwrap()));
    let answers = match block_on(store.apply(jobs.collect())) {
        Ok(answers) => answers,
        Err(StoreError::Full(_)) => return None,
        Err(other) => panic!("a full disk is not {other:?}"),
    };
    let ids = answers.into_iter().map(|answer| match answer {
        Ok(Reply::Published(published)) => Some(published.id),
        Err(Refusal::StorageFull) => None,
        other => panic!("a full disk is not {other:?}"),
    });
    ids.collect()
}

/// Publishes until there is no room, and none is made for as long as this. Without a reserve the log may still be being moved,
/// and make room for a few more. Returns what was answered.
fn fill(store: &Arc<dyn Store>, stays: Duration) -> Vec<JobId> {
    let mut stored = Vec::new();
    let mut had_room = Instant::now();
    loop {
        match publish(store) {
            Some(ids) => {
                stored.extend(ids);
                had_room = Instant::now();
                assert!(stored.len() < 10_000, "a disk of 64 MB took a gigabyte");
            }
            None if had_room.elapsed() >= stays => return stored,
            None => std::thread::yield_now(),
        }
    }
}

/// Publishes now that there is room. The store looks at the disk between commits, and may first have to move its log, so it
/// refuses for a moment.
fn publish_again(store: &Arc<dyn Store>) -> Vec<JobId> {
    let began = Instant::now();
    loop {
        if let Some(ids) = publish(store) {
            return ids;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "there is room, and publishes do not work again");
        std::thread::yield_now();
    }
}

/// Leases a few jobs and acknowledges them.
fn work(store: &Arc<dyn Store>) -> Vec<JobId> {
    let request = LeaseRequest::new(queue(), 8, None).unwrap();
    let deliveries = block_on(store.lease(request)).unwrap();
    assert!(!deliveries.is_empty(), "there is work to do");
    let done = || Outcome::Done { result: None, effect: None };
    let settles = deliveries
        .iter()
        .map(|d| Command::Settle(Settle::new(d.id, Some(d.token), done(), Report::default()).unwrap()));
    let answers = block_on(store.apply(settles.collect())).expect("settles work on a full disk");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    deliveries.iter().map(|d| d.id).collect()
}

/// Fills a small disk, works on it, makes room, goes on, and reads everything after a reopen.
fn full_disk(reserve: u64) -> Result<(), String> {
    let home = tempfile::tempdir().unwrap();
    if !rustix::process::geteuid().is_root() {
        return Err("needs root to mount a small disk".into());
    }
    let disk = Disk::small(home.path(), 64).map_err(|e| e.to_string())?;
    let ballast = disk.path().join("ballast");
    // What was stored may be there twice for a while, in the log and in its place, and it depends on the pace of the disk how much
    // of it is when there is no room. With nothing held in reserve, more than half of the disk has to be taken away again for
    // there to be enough in any case.
    let megabytes = if reserve > 0 { 20 } else { 34 };
    fs::write(&ballast, vec![1; usize::try_from(megabytes * MEGABYTE).unwrap()]).unwrap();
    let dir = disk.path().join("store");
    let store = open(&dir, reserve).unwrap();
    let mut stored = fill(&store, if reserve > 0 { Duration::ZERO } else { Duration::from_secs(1) });
    println!("reserve {reserve}: {} jobs fitted", stored.len());
    // Room for settles is what the reserve is for; without one even a settle may have to wait.
    let done = if reserve > 0 { work(&store) } else { Vec::new() };
    assert!(publish(&store).is_none(), "still full");
    assert_eq!(block_on(store.health()).unwrap().full, reserve > 0, "and it says so, where it can know");
    fs::remove_file(&ballast).unwrap();
    stored.extend(publish_again(&store));
    assert!(!block_on(store.health()).unwrap().full);
    for &id in &stored {
        let job = block_on(store.job(id)).unwrap().expect("what was answered is there");
        assert_eq!(job.progress.state.is_finished(), done.contains(&id), "{id}");
    }
    drop(store);
    let store = open(&dir, reserve).unwrap();
    for &id in &stored {
        let job = block_on(store.job(id)).unwrap().expect("what was answered is there after a reopen");
        assert_eq!(job.progress.state.is_finished(), done.contains(&id), "{id}");
        assert_eq!(job.spec.payload.as_ref().map(Payload::len), Some(100_002));
    }
    Ok(())
}

#[test]
fn heavy_a_disk_below_its_reserve_takes_settles_and_no_publishes() {
    full_disk(16 * MEGABYTE).unwrap_or_else(|why| skip("disk below its reserve", &why));
}

#[test]
fn heavy_a_disk_without_any_room_loses_nothing_and_recovers() {
    full_disk(0).unwrap_or_else(|why| skip("full disk", &why));
}

#[test]
fn a_second_opening_of_a_directory_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let _first = open(home.path(), 0).unwrap();
    let refusal =
        EmbeddedStore::open(home.path(), Options::default()).expect_err("two in one process").to_string();
    assert!(refusal.contains("in use") && refusal.contains(&std::process::id().to_string()), "{refusal}");

    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_proof-child"));
    child.arg(home.path()).args(["--seed", "1", "--steps", "1"]).stderr(std::process::Stdio::piped());
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("in use"), "{said}");
}

/// What a kill in the middle of making a store leaves behind is no store, and is in nobody's way.
#[test]
fn a_store_whose_making_was_interrupted_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    for left_behind in ["semel.lock", "semel.new", "semel.new-journal", "semel.new-wal", "semel.new-shm"] {
        fs::write(home.path().join(left_behind), b"half").unwrap();
    }
    let store = open(home.path(), 0).unwrap();
    assert!(publish(&store).is_some());
}

/// The lock is the kernel's: it goes with its process, however that ended.
#[test]
fn heavy_a_directory_is_free_after_its_process_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_proof-child"));
    command.arg(home.path()).args(["--seed", "1"]);
    let child = Running::spawn(command).unwrap();
    child.first_ok().unwrap();
    let refusal =
        EmbeddedStore::open(home.path(), Options::default()).expect_err("the child has it").to_string();
    assert!(refusal.contains(&format!("process {}", child.id())), "{refusal}");
    assert!(child.kill_after(std::time::Duration::ZERO).unwrap().was_killed());
    EmbeddedStore::open(home.path(), Options::default()).unwrap();
}

/// Root may write anywhere, so a directory is made read-only by mounting it so.
#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let home = tempfile::tempdir().unwrap();
    if !rustix::process::geteuid().is_root() {
        return skip("read-only directory", &"needs root to mount a disk");
    }
    let disk = match Disk::small(home.path(), 16) {
        Ok(disk) => disk,
        Err(why) => return skip("read-only directory", &why),
    };
    let (old, new) = (disk.path().join("old"), disk.path().join("new"));
    drop(open(&old, 0).unwrap());
    disk.make_read_only().unwrap();
    for dir in [old, new] {
        match EmbeddedStore::open(&dir, Options::default()) {
            Err(StoreError::Open(why)) => assert!(why.to_lowercase().contains("read-only"), "{why}"),
            Err(other) => panic!("{other:?} does not say that the directory cannot be written"),
            Ok(_) => panic!("{} cannot be written, and was opened", dir.display()),
        }
    }
}
