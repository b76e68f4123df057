//! `semel move`, from a real directory into a real database.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use semel_cluster::{Database, Shared, Template};
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_store::{Command, Store, StoreError};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

use crate::run::{Ended, semel};

/// A directory with a store in it, and an empty database.
struct Fixture {
    root: TempDir,
    database: Database<'static>,
}

impl Fixture {
    fn new(jobs: u32) -> Self {
        let shared = Shared::get().expect("a PostgreSQL cluster starts");
        let database =
            shared.database(&Template::EMPTY, |_| Ok::<_, StoreError>(())).expect("a database is made");
        let fixture = Self { root: tempfile::tempdir().expect("a temporary directory"), database };
        publish(&fixture.dir(), jobs);
        fixture
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("store")
    }

    fn args(&self, more: &[&str]) -> Vec<OsString> {
        let to = self.database.url().into();
        let mut args = vec!["move".into(), "--from".into(), self.dir().into(), "--to".into(), to];
        args.extend(more.iter().map(OsString::from));
        args
    }

    fn run(&self, more: &[&str]) -> Ended {
        semel(&self.args(more))
    }
}

/// Publishes jobs with keys to a queue, and closes the store in order.
fn publish(dir: &Path, jobs: u32) {
    let queue = QueueName::try_from("orders").expect("a name");
    let put = Command::PutQueue { name: queue.clone(), config: Box::new(QueueConfig::default()) };
    let job = |n| {
        let payload = Payload::from_json(format!("{{\"order\":{n}}}")).expect("JSON");
        let key = Key::try_from(format!("order-{n}")).expect("a key");
        Command::Publish(Draft::new(queue.clone(), payload).with_key(key).check().expect("a publish"))
    };
    let all: Vec<_> = std::iter::once(put).chain((0..jobs).map(job)).collect();
    let store = EmbeddedStore::open(dir, Options::default()).expect("a store");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for batch in all.chunks(500) {
        let answers = runtime.block_on(store.apply(batch.to_vec())).expect("answers");
        assert!(answers.iter().all(Result::is_ok));
    }
    runtime.block_on(store.close()).expect("an end in order");
}

#[test]
fn a_store_is_moved_compared_and_told_of() {
    let fixture = Fixture::new(500);
    let plan = fixture.run(&["--dry-run"]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    assert!(
        plan.stdout.contains("500 jobs") && plan.stdout.contains("has no store in it yet"),
        "{}",
        plan.stdout
    );
    let moved = fixture.run(&[]);
    assert_eq!(moved.code, Some(0), "{}{}", moved.stdout, moved.stderr);
    let row = moved.stdout.lines().find(|line| line.trim_start().starts_with("orders")).expect("a table");
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["orders", "500", "0", "0", "0"]);
    assert!(
        moved.stdout.contains("the same on both sides: 500 jobs, 500 of them with keys"),
        "{}",
        moved.stdout
    );
    let again = fixture.run(&[]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(again.stdout.contains("was moved") && again.stdout.contains("before"), "{}", again.stdout);
}

#[test]
fn programs_are_told_the_same() {
    let fixture = Fixture::new(50);
    let plan = fixture.run(&["--dry-run", "--json"]).json();
    assert_eq!(
        (&plan["plan"]["target"], &plan["plan"]["source"]["jobs"]),
        (&"empty".into(), &50.into()),
        "{plan}"
    );
    let moved = fixture.run(&["--json"]).json();
    assert_eq!((&moved["same"], &moved["report"]["moved"]), (&true.into(), &50.into()), "{moved}");
    assert_eq!(moved["report"]["target"]["queues"][0]["unfinished"], 50);
    let verified = fixture.run(&["--verify", "--json"]).json();
    assert_eq!(
        (&verified["same"], &verified["report"]["target"]["keys"]),
        (&true.into(), &50.into()),
        "{verified}"
    );
    assert_eq!(fixture.run(&["--json"]).json()["report"], serde_json::Value::Null);
}

#[test]
fn a_difference_is_named_and_is_exit_code_1() {
    let fixture = Fixture::new(50);
    assert_eq!(fixture.run(&[]).code, Some(0));
    fixture.database.sql("DELETE FROM semel.key WHERE key = 'order-7'").expect("a key is lost");
    let verified = fixture.run(&["--verify"]);
    assert_eq!(verified.code, Some(1), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stdout.contains("NOT THE SAME: 2 differences"), "{}", verified.stdout);
    assert!(verified.stdout.contains("is not listed under its key"), "{}", verified.stdout);
}

#[test]
fn a_move_that_was_killed_goes_on_where_it_stopped() {
    let fixture = Fixture::new(30_000);
    let mut child = Process::new(env!("CARGO_BIN_EXE_semel"))
        .args(fixture.args(&[]))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary is built");
    let patience = Instant::now() + Duration::from_secs(60);
    let place = || fixture.database.sql("SELECT place FROM semel.move WHERE place > 0").unwrap_or_default();
    while place().is_empty() {
        assert!(Instant::now() < patience, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("it can be killed");
    let status = child.wait().expect("it has ended");
    assert_eq!(status.code(), None, "it was killed while it worked");
    let refused = semel(&["serve", "--listen", "127.0.0.1:0", "--store", fixture.database.url()]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("is not finished"), "{}", refused.stderr);
    let moved = fixture.run(&["--json"]).json();
    assert_eq!((&moved["same"], &moved["report"]["resumed"]), (&true.into(), &true.into()), "{moved}");
    assert_eq!(moved["report"]["target"]["jobs"], 30_000);
    assert!(moved["report"]["moved"].as_u64() < Some(30_000), "{moved}");
}

#[test]
fn what_cannot_be_moved_is_exit_code_2_and_says_why() {
    let fixture = Fixture::new(10);
    let open = EmbeddedStore::open(&fixture.dir(), Options::default()).expect("the store opens");
    let refused = fixture.run(&[]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("in use by process"), "{}", refused.stderr);
    drop(open);
    let nowhere = "postgres://me:hunter2@127.0.0.1:1/nowhere";
    let refused = semel(&["move", "--from", &fixture.dir().display().to_string(), "--to", nowhere]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("check the address"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
}
