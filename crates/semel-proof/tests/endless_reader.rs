//! Somebody reads and never ends: commits go on, and the log is taken back once the reader is gone.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_proof::workload::block_on;
use semel_store::{Command, JobQuery, Store};
use semel_store_embedded::{EmbeddedStore, Options};

const MEGABYTE: u64 = 1 << 20;
/// Jobs of one commit, and bytes of each: about a megabyte in the log.
const JOBS: u64 = 64;
const BYTES: usize = 16_000;

fn queue() -> QueueName {
    QueueName::try_from("q").unwrap()
}

fn open(dir: &Path) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir, Options::default()).unwrap());
    block_on(
        store.apply(vec![Command::PutQueue { name: queue(), config: Box::new(QueueConfig::default()) }]),
    )
    .unwrap();
    store
}

/// Publishes about so many megabytes.
fn publish(store: &Arc<dyn Store>, megabytes: u64) {
    let payload = Payload::from_json(format!("\"{}\"", "x".repeat(BYTES))).unwrap();
    for _ in 0..megabytes {
        let job = || Command::Publish(Draft::new(queue(), payload.clone()).check().unwrap());
        let answers = block_on(store.apply((0..JOBS).map(|_| job()).collect())).unwrap();
        assert!(answers.iter().all(Result::is_ok));
    }
}

fn log_size(dir: &Path) -> u64 {
    std::fs::metadata(dir.join("semel.db-wal")).map_or(0, |file| file.len())
}

/// The head of the log. It has salts that change when the log starts over.
fn log_header(dir: &Path) -> [u8; 32] {
    let mut header = [0; 32];
    let mut log = std::fs::File::open(dir.join("semel.db-wal")).unwrap();
    log.read_exact(&mut header).unwrap();
    header
}

fn count(store: &Arc<dyn Store>) -> u64 {
    block_on(store.stats()).unwrap().queues.iter().map(semel_store::QueueStats::unfinished).sum()
}

/// A program that opened the file by itself, such as the `sqlite3` shell, and forgot its transaction.
#[test]
fn heavy_a_reader_that_never_ends_holds_up_nobody() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    publish(&store, 1);
    let reader =
        Connection::open_with_flags(home.path().join("semel.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let rows = |conn: &Connection| {
        conn.query_row("SELECT count(*) FROM job", [], |row| row.get::<_, u32>(0)).map(u64::from).unwrap()
    };
    assert_eq!(rows(&reader), JOBS);

    publish(&store, 60);
    assert_eq!(rows(&reader), JOBS, "the reader still sees what it began with");
    assert_eq!(count(&store), 61 * JOBS, "and the store goes on");
    let held = log_size(home.path());
    println!("the log has {} MB while the reader reads", held / MEGABYTE);

    drop(reader);
    let before = log_header(home.path());
    let mut written = 61;
    while log_header(home.path()) == before {
        assert!(written < 400, "the reader has gone, and the log still does not start over");
        publish(&store, 10);
        written += 10;
    }
    println!(
        "the log started over after {} MB more, it had {} MB then",
        written - 61,
        log_size(home.path()) / MEGABYTE
    );
    assert_eq!(count(&store), written * JOBS);
    drop(store);
    assert_eq!(count(&open(home.path())), written * JOBS);
}

/// A listing that somebody forgot half way holds nothing: each page is a reading of its own.
#[test]
fn heavy_a_listing_that_never_ends_holds_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    publish(&store, 2);
    let first_log = log_header(home.path());
    let mut query = JobQuery { limit: 5, ..JobQuery::default() };
    let mut walked = Vec::new();
    for turn in 0..20 {
        let page = block_on(store.jobs(query.clone())).unwrap();
        walked.extend(page.items.iter().map(|job| job.id));
        query.cursor = page.next;
        assert!(query.cursor.is_some(), "turn {turn} of a long listing");
        publish(&store, 5);
    }
    // The listing is still half way. If it held anything, the log could never start over.
    let started_over = (0..100).any(|_| {
        publish(&store, 4);
        log_header(home.path()) != first_log
    });
    assert!(
        started_over,
        "the log was not taken back while somebody listed: {} bytes",
        log_size(home.path())
    );
    while query.cursor.is_some() {
        let page = block_on(store.jobs(query.clone())).unwrap();
        walked.extend(page.items.iter().map(|job| job.id));
        query.cursor = page.next;
    }
    assert_eq!(walked.len() as u64, 2 * JOBS, "every job that was there from the start is met once");
    assert!(walked.is_sorted_by(|a, b| a > b));
}
