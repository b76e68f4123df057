//! `semel store` on real directories, sound and damaged.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_store::{Command, Store};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

use crate::odds::{on_a_small_disk, unprivileged};
use crate::run::{Ended, ended, semel};

/// Jobs of the store under test.
const JOBS: u64 = 500;

/// A directory for stores, with one in it.
struct Fixture {
    root: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { root: tempfile::tempdir().expect("a temporary directory") };
        publish(&fixture.store(), 0..JOBS);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.path("store")
    }

    fn run(&self, task: &str, dirs: &[&str]) -> Ended {
        semel(&self.args(task, dirs))
    }

    fn run_json(&self, task: &str, dirs: &[&str]) -> serde_json::Value {
        let mut args = self.args(task, dirs);
        args.push("--json".into());
        semel(&args).json()
    }

    /// Backup and restore are commands of their own.
    fn args(&self, task: &str, dirs: &[&str]) -> Vec<OsString> {
        let group = (!["backup", "restore"].contains(&task)).then(|| "store".into());
        let dirs = dirs.iter().map(|dir| self.path(dir).into_os_string());
        group.into_iter().chain([task.into()]).chain(dirs).collect()
    }
}

/// Publishes jobs with keys to a queue, and closes the store in order.
fn publish(dir: &Path, numbers: std::ops::Range<u64>) {
    let queue = QueueName::try_from("orders").expect("a name");
    let put = Command::PutQueue { name: queue.clone(), config: Box::new(QueueConfig::default()) };
    let job = |n| {
        let payload = Payload::from_json(format!("{{\"order\":{n}}}")).expect("JSON");
        let key = Key::try_from(format!("order-{n}")).expect("a key");
        Command::Publish(Draft::new(queue.clone(), payload).with_key(key).check().expect("a publish"))
    };
    let batch: Vec<_> = std::iter::once(put).chain(numbers.map(job)).collect();
    let store = EmbeddedStore::open(dir, Options::default()).expect("a store");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let answers = runtime.block_on(store.apply(batch)).expect("answers");
    assert!(answers.iter().all(Result::is_ok));
    runtime.block_on(store.close()).expect("an end in order");
}

#[test]
fn a_sound_store_is_called_sound() {
    let fixture = Fixture::new();
    let check = fixture.run("check", &["store"]);
    assert_eq!(check.code, Some(0), "{}{}", check.stdout, check.stderr);
    assert!(check.stdout.contains("500 jobs (500 unfinished), 500 keys"), "{}", check.stdout);
    assert!(check.stdout.contains("sound: no problems"), "{}", check.stdout);
    let json = fixture.run_json("check", &["store"]);
    assert_eq!((&json["sound"], &json["report"]["jobs"]), (&true.into(), &JOBS.into()), "{json}");
}

#[test]
fn a_flipped_bit_in_a_job_is_found_and_named() {
    let fixture = Fixture::new();
    // A backup is the database alone, without a log that might hold a second, sound copy of the job.
    assert_eq!(fixture.run("backup", &["store", "copy"]).code, Some(0));
    flip(&fixture.path("copy/semel.db"), b"\"order\":137");
    let check = fixture.run("check", &["copy"]);
    assert_eq!(check.code, Some(1), "{}{}", check.stdout, check.stderr);
    assert!(check.stdout.contains("NOT SOUND") && check.stdout.contains("job_"), "{}", check.stdout);
    assert_eq!(fixture.run_json("check", &["copy"])["sound"], false);
}

/// Flips a bit of `text` wherever it stands in a file.
fn flip(file: &Path, text: &[u8]) {
    let mut bytes = fs::read(file).expect("the file is there");
    let windows = bytes.windows(text.len()).enumerate();
    let places: Vec<_> = windows.filter(|(_, window)| *window == text).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "the text is on disk");
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(file, bytes).expect("the file can be written");
}

#[test]
fn stats_count_what_is_there() {
    let fixture = Fixture::new();
    let stats = fixture.run("stats", &["store"]);
    assert_eq!(stats.code, Some(0), "{}", stats.stderr);
    assert!(stats.stdout.contains("orders") && stats.stdout.contains("500"), "{}", stats.stdout);
    let json = fixture.run_json("stats", &["store"]);
    assert_eq!(json["stats"]["queues"][0]["unfinished"], JOBS);
    assert!(json["stats"]["database_bytes"].as_u64() > Some(0));
}

#[test]
fn the_index_is_made_anew_from_the_jobs() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.path("store/keys")).unwrap();
    let rebuilt = fixture.run("rebuild-index", &["store"]);
    assert_eq!(rebuilt.code, Some(0), "{}", rebuilt.stderr);
    assert!(rebuilt.stdout.contains("index of 500 keys made from 500 jobs"), "{}", rebuilt.stdout);
    assert_eq!(fixture.run_json("rebuild-index", &["store"])["keys"], JOBS);
    assert_eq!(fixture.run("check", &["store"]).code, Some(0));
}

#[test]
fn a_backup_can_be_checked_and_restored() {
    let fixture = Fixture::new();
    let backup = fixture.run("backup", &["store", "copy"]);
    assert_eq!(backup.code, Some(0), "{}", backup.stderr);
    assert!(backup.stdout.contains("backed up to"), "{}", backup.stdout);
    publish(&fixture.store(), JOBS..JOBS + 100);
    let restored = fixture.run_json("restore", &["copy", "restored"]);
    assert!(restored["bytes"].as_u64() > Some(0), "{restored}");
    for dir in ["store", "restored"] {
        assert_eq!(fixture.run("check", &[dir]).code, Some(0), "{dir}");
    }
    let unfinished = |dir| fixture.run_json("stats", &[dir])["stats"]["queues"][0]["unfinished"].as_u64();
    assert_eq!((unfinished("store"), unfinished("restored")), (Some(JOBS + 100), Some(JOBS)));
}

#[test]
fn a_copy_never_overwrites() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("taken")).unwrap();
    fs::write(fixture.path("taken/precious"), "x").unwrap();
    for task in ["backup", "restore"] {
        let refused = fixture.run(task, &["store", "taken"]);
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains("not empty"), "{}", refused.stderr);
    }
    assert_eq!(fs::read_dir(fixture.path("taken")).unwrap().count(), 1);
}

#[test]
fn a_database_is_for_the_means_of_databases() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("to");
    let url = "postgres://semel:hunter2@db.internal/semel";
    for (task, instead) in [("backup", "pg_dump"), ("restore", "pg_restore")] {
        let refused = semel(&[task.as_ref(), url.as_ref(), to.as_os_str()]);
        assert_eq!((refused.code, refused.stderr.lines().count()), (Some(2), 1), "{}", refused.stderr);
        assert!(
            refused.stderr.contains(instead) && refused.stderr.contains("postgres.md"),
            "{}",
            refused.stderr
        );
        assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    }
    assert!(!to.exists(), "nothing was made");
}

#[test]
fn a_copy_that_may_not_be_made_is_told_and_leaves_nothing() {
    let fixture = Fixture::new();
    let closed = fixture.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    for task in ["backup", "restore"] {
        let Some(mut command) = unprivileged() else { return };
        let refused = ended(command.arg(task).arg(fixture.store()).arg(closed.join("copy")));
        assert_eq!((refused.code, refused.stderr.lines().count()), (Some(2), 1), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("cannot make") && refused.stderr.contains("closed/copy"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
}

#[test]
fn heavy_a_copy_to_a_full_disk_leaves_nothing() {
    let fixture = Fixture::new();
    let disk = fixture.path("disk");
    fs::create_dir(&disk).unwrap();
    for task in ["backup", "restore"] {
        // The disk is gone with the command, so that what was left on it is listed by the command itself.
        let script = r#""$0" "$@"; code=$?; ls -A "$(dirname "$3")"; exit $code"#;
        let Some(mut command) = on_a_small_disk(&disk, 64, script) else { return };
        let refused = ended(command.arg(task).arg(fixture.store()).arg(disk.join("copy")).arg("--json"));
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert_eq!((refused.code, refused.stderr.lines().last().is_some()), (Some(2), true), "{said}");
        assert!(said.contains("full"), "{said}");
        assert!(!refused.stdout.contains("copy"), "something was left: {said}");
    }
}

#[test]
fn a_directory_that_is_no_store_is_refused_and_left_alone() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("empty")).unwrap();
    for task in ["check", "rebuild-index", "stats"] {
        for dir in ["empty", "absent"] {
            let refused = fixture.run(task, &[dir]);
            assert_eq!(refused.code, Some(2), "{task} {dir}: {}", refused.stdout);
            assert!(refused.stderr.contains("is not a store"), "{task} {dir}: {}", refused.stderr);
        }
    }
    assert_eq!(fs::read_dir(fixture.path("empty")).unwrap().count(), 0, "nothing was made in it");
    assert!(!fixture.path("absent").exists());
}

#[test]
fn a_store_in_use_is_not_checked_but_can_be_looked_at_and_backed_up() {
    let fixture = Fixture::new();
    let open = EmbeddedStore::open(&fixture.store(), Options::default()).unwrap();
    for task in ["check", "rebuild-index"] {
        let refused = fixture.run(task, &["store"]);
        assert_eq!(refused.code, Some(2), "{task}");
        assert!(refused.stderr.contains("in use by process"), "{task}: {}", refused.stderr);
    }
    assert_eq!(fixture.run("stats", &["store"]).code, Some(0));
    assert_eq!(fixture.run("backup", &["store", "copy"]).code, Some(0));
    drop(open);
    assert_eq!(fixture.run("check", &["store"]).code, Some(0), "the store is none the worse for it");
}
