//! What operators do to a directory: check it, rebuild its index, look at it, back it up, restore it, open it twice.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::lease::LeaseRequest;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::settle::{Report, Settle};
use semel_store::{Command, JobQuery, Reply, Store, StoreError};
use semel_store_embedded::backup::{backup, restore};
use semel_store_embedded::check::{CheckReport, check};
use semel_store_embedded::inspect::inspect;
use semel_store_embedded::rebuild::rebuild_index;
use semel_store_embedded::{EmbeddedStore, Options, Sabotage};
use tempfile::TempDir;

fn name() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

/// Small pieces, so that a few hundred jobs make several runs and chunks.
fn options() -> Options {
    Options { reserve_bytes: 0, run_keys: 64, segment_jobs: 100, chunk_ids: 16, ..Options::default() }
}

fn publish(n: usize) -> Command {
    let payload = Payload::from_json(format!("{{\"order\":{n}}}")).unwrap();
    let key = Key::try_from(format!("order-{n}")).unwrap();
    let mut draft = Draft::new(name(), payload).with_key(key);
    draft.priority = i64::from(n.is_multiple_of(10)) * 5;
    draft.delay = n.is_multiple_of(15).then_some(semel_core::Millis::from_secs(600));
    Command::Publish(draft.check().unwrap())
}

async fn fill(store: &EmbeddedStore, jobs: std::ops::Range<usize>) -> Vec<JobId> {
    let config = QueueConfig { group_concurrency: Some(1), ..QueueConfig::default() };
    store.apply(vec![Command::PutQueue { name: name(), config: Box::new(config) }]).await.unwrap();
    let answers = store.apply(jobs.map(publish).collect()).await.unwrap();
    answers
        .into_iter()
        .map(|answer| match answer.unwrap() {
            Reply::Published(published) => published.id,
            other => panic!("a publish was answered {other:?}"),
        })
        .collect()
}

async fn work(store: &EmbeddedStore, n: u32) {
    for delivery in store.lease(LeaseRequest::new(name(), n, None).unwrap()).await.unwrap() {
        let outcome = match delivery.id.raw() % 3 {
            0 => Outcome::Failed { error: "no".into() },
            1 => Outcome::Rejected { error: "never".into() },
            _ => Outcome::Done { result: None, effect: None },
        };
        let settle = Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap();
        store.apply(vec![Command::Settle(settle)]).await.unwrap()[0].clone().unwrap();
    }
}

/// A store with jobs in every place there is: pending, sealed, delayed, retrying, completed, dead.
async fn busy(dir: &Path, options: Options) -> Vec<JobId> {
    let store = EmbeddedStore::open(dir, options).unwrap();
    let mut ids = fill(&store, 0..300).await;
    work(&store, 200).await;
    ids.extend(fill(&store, 300..600).await);
    store.close().await.unwrap();
    ids
}

fn sound(dir: &Path) -> CheckReport {
    let report = check(dir, &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    report
}

fn damaged(dir: &Path) -> String {
    let report = check(dir, &mut |_| {}).unwrap();
    assert!(!report.is_sound(), "the damage was not found");
    report.findings.named.join("\n")
}

fn sql(dir: &Path, statement: &str) {
    let changed = Connection::open(dir.join("semel.db")).unwrap().execute(statement, []).unwrap();
    assert!(changed > 0, "{statement} changed nothing");
}

#[tokio::test]
async fn a_healthy_store_checks_out_and_says_what_it_has() {
    let dir = TempDir::new().unwrap();
    busy(dir.path(), options()).await;
    let mut steps = Vec::new();
    let report = check(dir.path(), &mut |progress| steps.push(progress.step)).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!((report.jobs, report.keys), (600, 600));
    assert!(steps.contains(&"checking jobs") && steps.contains(&"checking pages"));
    let seen = inspect(dir.path()).unwrap();
    let queue = &seen.queues[0];
    assert_eq!(queue.unfinished + queue.completed + queue.dead + queue.cancelled, 600);
    assert!(seen.key_runs > 0 && seen.database_bytes > 0);
}

#[tokio::test]
async fn a_store_can_be_looked_at_while_it_is_in_use() {
    let dir = TempDir::new().unwrap();
    let store = EmbeddedStore::open(dir.path(), options()).unwrap();
    fill(&store, 0..10).await;
    assert_eq!(inspect(dir.path()).unwrap().queues[0].unfinished, 10);
}

#[tokio::test]
async fn a_check_finds_each_kind_of_planted_damage() {
    let plant: [(&str, &str); 9] = [
        ("UPDATE job SET rec = zeroblob(40) WHERE id = (SELECT id FROM job LIMIT 1 OFFSET 7)", "checksum"),
        ("UPDATE job SET id = id + 1 WHERE id = (SELECT max(id) FROM job)", "checksum"),
        ("DELETE FROM job WHERE id = (SELECT id FROM done LIMIT 1)", "no such job"),
        ("DELETE FROM done WHERE id = (SELECT id FROM done LIMIT 1)", "completed"),
        ("DELETE FROM chunk WHERE first = (SELECT max(first) FROM chunk)", "chunks list"),
        ("DELETE FROM ordered WHERE id = (SELECT id FROM ordered LIMIT 1)", "in order"),
        ("UPDATE dead SET rec = zeroblob(9)", "dead row"),
        ("DELETE FROM counter", "counts of queue"),
        ("UPDATE queue SET rec = zeroblob(30)", "queue number 1"),
    ];
    for (statement, expected) in plant {
        let dir = TempDir::new().unwrap();
        busy(dir.path(), options()).await;
        sound(dir.path());
        sql(dir.path(), statement);
        let said = damaged(dir.path());
        assert!(said.contains(expected), "after {statement} the check said only: {said}");
    }
}

#[tokio::test]
async fn a_lost_index_entry_is_found_and_a_rebuild_mends_it() {
    let dir = TempDir::new().unwrap();
    busy(dir.path(), Options { sabotage: Some(Sabotage::LoseIndexEntry), run_keys: 200, ..options() }).await;
    assert!(damaged(dir.path()).contains("keys are missing"));
    let rebuilt = rebuild_index(dir.path(), &mut |_| {}).unwrap();
    assert_eq!((rebuilt.jobs, rebuilt.keys), (600, 600));
    sound(dir.path());
}

#[tokio::test]
async fn a_missing_or_damaged_run_is_rebuilt_by_the_next_open() {
    let dir = TempDir::new().unwrap();
    let ids = busy(dir.path(), options()).await;
    let runs: Vec<_> = fs::read_dir(dir.path().join("keys")).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(runs.len() >= 2, "the test needs several runs, there are {}", runs.len());
    fs::remove_file(&runs[0]).unwrap();
    let mut bytes = fs::read(&runs[1]).unwrap();
    bytes[20] ^= 1;
    fs::write(&runs[1], bytes).unwrap();
    let store = EmbeddedStore::open(dir.path(), options()).unwrap();
    let again: Vec<_> = store.apply((0..600).map(publish).collect()).await.unwrap();
    for (answer, id) in again.into_iter().zip(ids) {
        match answer.unwrap() {
            Reply::Published(published) => assert!(published.deduplicated && published.id == id),
            other => panic!("a publish was answered {other:?}"),
        }
    }
    store.close().await.unwrap();
    sound(dir.path());
}

#[tokio::test]
async fn a_backup_is_one_moment_of_a_store_that_goes_on() {
    let (dir, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = Arc::new(EmbeddedStore::open(dir.path(), options()).unwrap());
    fill(&store, 0..1000).await;
    let runtime = tokio::runtime::Handle::current();
    let (copy, mut published) = (to.path().join("copy"), 1000);
    backup(dir.path(), &copy, &mut |_| {
        // The store publishes between any two steps of the copy.
        let (store, next) = (store.clone(), published);
        published += 100;
        std::thread::scope(|scope| {
            let job =
                || runtime.block_on(async { store.apply((next..next + 100).map(publish).collect()).await });
            scope.spawn(job).join().unwrap().unwrap();
        });
    })
    .unwrap();
    assert!(published > 1000, "nothing was published while the copy ran");
    store.close().await.unwrap();
    let report = sound(&copy);
    assert_eq!(report.jobs, 1000, "the copy has what was there when it began");
}

#[tokio::test]
async fn a_restored_store_works_and_its_tokens_are_new() {
    let (dir, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let ids = busy(dir.path(), options()).await;
    let (copy, restored) = (to.path().join("copy"), to.path().join("restored"));
    backup(dir.path(), &copy, &mut |_| {}).unwrap();
    // The original goes on after the backup and hands out tokens that the backup knows nothing of.
    let token_after = {
        let store = EmbeddedStore::open(dir.path(), options()).unwrap();
        store.lease(LeaseRequest::new(name(), 1, None).unwrap()).await.unwrap()[0].token
    };
    restore(&copy, &restored, &mut |_| {}).unwrap();
    let store = EmbeddedStore::open(&restored, options()).unwrap();
    let delivery = &store.lease(LeaseRequest::new(name(), 1, None).unwrap()).await.unwrap()[0];
    assert!(delivery.token > token_after, "a token from before the restore could settle this delivery");
    let page = store.jobs(JobQuery { limit: 1000, ..JobQuery::default() }).await.unwrap();
    assert_eq!(page.items.iter().map(|job| job.id).rev().collect::<Vec<_>>(), ids);
    store.close().await.unwrap();
    sound(&restored);
}

#[tokio::test]
async fn a_publish_refused_for_want_of_room_does_not_release_the_key_it_would_have_taken() {
    let dir = TempDir::new().unwrap();
    let config = QueueConfig { on_dead: semel_core::queue::OnDead::Release, ..QueueConfig::default() };
    let store = EmbeddedStore::open(dir.path(), options()).unwrap();
    store
        .apply(vec![Command::PutQueue { name: name(), config: Box::new(config) }, publish(1)])
        .await
        .unwrap();
    let delivery = store.lease(LeaseRequest::new(name(), 1, None).unwrap()).await.unwrap().remove(0);
    let never = Outcome::Rejected { error: "never".into() };
    let settle = Settle::new(delivery.id, Some(delivery.token), never, Report::default()).unwrap();
    store.apply(vec![Command::Settle(settle)]).await.unwrap().remove(0).unwrap();
    store.close().await.unwrap();
    let full = Options { reserve_bytes: u64::MAX, ..options() };
    let store = EmbeddedStore::open(dir.path(), full).unwrap();
    let refused = store.apply(vec![publish(1)]).await.unwrap().remove(0);
    assert_eq!(refused, Err(semel_core::Refusal::StorageFull));
    let record = store.key(&name(), &Key::try_from("order-1").unwrap()).await.unwrap().unwrap();
    assert!(record.holds && record.job.id == delivery.id, "the dead letter still has its key");
}

#[tokio::test]
async fn a_backup_is_never_written_over_anything() {
    let (dir, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    busy(dir.path(), options()).await;
    fs::write(to.path().join("mine"), "x").unwrap();
    assert!(matches!(backup(dir.path(), to.path(), &mut |_| {}), Err(StoreError::Open(_))));
    assert!(matches!(restore(to.path(), dir.path(), &mut |_| {}), Err(StoreError::Open(_))));
    assert_eq!(fs::read_to_string(to.path().join("mine")).unwrap(), "x");
}

#[test]
fn a_second_opener_is_told_who_has_the_store() {
    let dir = TempDir::new().unwrap();
    let _store = EmbeddedStore::open(dir.path(), options()).unwrap();
    let refused = EmbeddedStore::open(dir.path(), options()).unwrap_err().to_string();
    assert!(
        refused.contains("in use by process") && refused.contains(&std::process::id().to_string()),
        "{refused}"
    );
    assert!(check(dir.path(), &mut |_| {}).is_err(), "a check must not run beside the store");
}

#[test]
fn what_is_not_a_store_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let refused = EmbeddedStore::open(dir.path(), options()).unwrap_err().to_string();
    assert!(refused.contains("notes.txt"), "{refused}");
    assert!(!dir.path().join("semel.db").exists());
    fs::write(dir.path().join("semel.db"), b"not a database at all, but long enough to be read as one......")
        .unwrap();
    assert!(EmbeddedStore::open(dir.path(), options()).is_err());
    fs::write(dir.path().join("semel.db"), b"").unwrap();
    assert!(EmbeddedStore::open(dir.path(), options()).is_err(), "an empty file is not an empty store");
}

#[tokio::test]
async fn a_store_that_lost_its_database_is_not_taken_for_a_new_one() {
    let dir = TempDir::new().unwrap();
    busy(dir.path(), options()).await;
    fs::remove_file(dir.path().join("semel.db")).unwrap();
    let refused = EmbeddedStore::open(dir.path(), options()).unwrap_err().to_string();
    assert!(refused.contains("not empty"), "{refused}");
}

/// The last commit sends the checkpoint thread off, and closing comes while it is at work.
#[tokio::test]
async fn closing_in_the_middle_of_a_checkpoint_leaves_an_empty_log_and_no_mark() {
    for _ in 0..10 {
        let dir = TempDir::new().unwrap();
        let store = EmbeddedStore::open(dir.path(), options()).unwrap();
        fill(&store, 0..1).await;
        let large = Payload::from_json(format!("\"{}\"", "x".repeat(60_000))).unwrap();
        let draft = Draft::new(name(), large).check().unwrap();
        for answer in store.apply(vec![Command::Publish(draft); 60]).await.unwrap() {
            answer.unwrap();
        }
        store.close().await.unwrap();
        assert!(!dir.path().join("semel.open").exists(), "the mark is still there");
        assert_eq!(fs::metadata(dir.path().join("semel.db-wal")).map_or(0, |log| log.len()), 0);
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    busy(dir.path(), options()).await;
    Connection::open(dir.path().join("semel.db")).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let refused = EmbeddedStore::open(dir.path(), options()).unwrap_err().to_string();
    assert!(refused.contains("format 2"), "{refused}");
}
