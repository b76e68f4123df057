//! Reading a store from end to end, in pages of any size. What a move makes of it is tested where it is moved to.

use std::path::Path;

use rusqlite::Connection;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::LeaseRequest;
use semel_core::name::{Group, QueueName};
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::settle::{Report, Settle};
use semel_store::transfer::{Holdings, Source};
use semel_store::working::Stored;
use semel_store::{Command, JobQuery, Store, StoreError};
use semel_store_embedded::export::Export;
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

fn queue() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

fn publish(n: usize) -> Command {
    let payload = Payload::from_json(format!("{{\"order\":{n}}}")).unwrap();
    let mut draft = Draft::new(queue(), payload).with_key(Key::try_from(format!("order-{n}")).unwrap());
    draft.group = n.is_multiple_of(4).then(|| Group::try_from("g").unwrap());
    Command::Publish(draft.check().unwrap())
}

/// Jobs of every kind: some done, some dead, some waiting for another try, many waiting in one line, some duplicated.
async fn fill(dir: &Path) -> EmbeddedStore {
    let store = EmbeddedStore::open(dir, Options { reserve_bytes: 0, ..Options::default() }).unwrap();
    let config = QueueConfig { group_concurrency: Some(1), ..QueueConfig::default() };
    let put = Command::PutQueue { name: queue(), config: Box::new(config) };
    store
        .apply(std::iter::once(put).chain((0..60).map(publish)).chain((0..9).map(publish)).collect())
        .await
        .unwrap();
    for (n, out) in (0..).zip(store.lease(LeaseRequest::new(queue(), 21, None).unwrap()).await.unwrap()) {
        let outcome = match n % 4 {
            0 => Outcome::Failed { error: "no".into() },
            1 => Outcome::Rejected { error: "never".repeat(50) },
            2 => Outcome::Done { result: Some(Payload::from_json("[1]").unwrap()), effect: None },
            // This one is out when the store stops.
            _ => continue,
        };
        let settle = Settle::new(out.id, Some(out.token), outcome, Report::default()).unwrap();
        store.apply(vec![Command::Settle(settle)]).await.unwrap()[0].clone().unwrap();
    }
    store
}

fn export(dir: &Path) -> (Export, Holdings) {
    let mut export = Export::open(dir).unwrap();
    let holdings = export.holdings().unwrap();
    (export, holdings)
}

/// All jobs, in pages of at most this size.
fn walk(dir: &Path, most: usize, most_bytes: usize) -> Vec<Stored> {
    let (mut export, _) = export(dir);
    let (mut all, mut after) = (Vec::new(), JobId::ZERO);
    loop {
        let page = export.jobs_after(after, most, most_bytes).unwrap();
        assert!(page.len() <= most, "{}", page.len());
        let Some(last) = page.last() else { return all };
        after = last.job.id;
        all.extend(page);
    }
}

#[tokio::test]
async fn every_page_size_gives_every_job_as_the_store_shows_it() {
    let dir = TempDir::new().unwrap();
    fill(dir.path()).await.close().await.unwrap();
    let whole = walk(dir.path(), usize::MAX, usize::MAX);
    for (most, most_bytes) in [(1, usize::MAX), (7, usize::MAX), (usize::MAX, 1), (1000, 200)] {
        assert_eq!(walk(dir.path(), most, most_bytes), whole, "{most} jobs, {most_bytes} bytes");
    }
    let store = EmbeddedStore::open(dir.path(), Options::default()).unwrap();
    let mut shown: Vec<Job> =
        store.jobs(JobQuery { limit: 1000, ..JobQuery::default() }).await.unwrap().items;
    shown.reverse();
    assert_eq!(whole.iter().map(|stored| stored.job.clone()).collect::<Vec<_>>(), shown);
    assert!(whole.iter().any(|stored| !stored.open) && whole.iter().any(|stored| stored.job.duplicates == 1));
}

#[tokio::test]
async fn one_of_a_line_is_open_and_the_others_wait() {
    let dir = TempDir::new().unwrap();
    fill(dir.path()).await.abandon();
    let in_line: Vec<_> =
        walk(dir.path(), 9, usize::MAX).into_iter().filter(|s| s.line().is_some()).collect();
    assert!(in_line.len() > 10, "{}", in_line.len());
    assert_eq!(in_line.iter().filter(|stored| stored.open).count(), 1);
}

#[tokio::test]
async fn a_store_says_who_it_is_and_that_it_has_been_used() {
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fill(one.path()).await.close().await.unwrap();
    fill(other.path()).await.close().await.unwrap();
    let first = export(one.path()).1;
    assert_eq!(first, export(one.path()).1, "looking changes nothing");
    assert_eq!((first.jobs, first.queues.len()), (60, 1));
    assert_ne!(first.origin.store, export(other.path()).1.origin.store);
    EmbeddedStore::open(one.path(), Options::default()).unwrap().close().await.unwrap();
    let second = export(one.path()).1;
    assert_eq!(second.origin.store, first.origin.store);
    assert_ne!(second.origin.state, first.origin.state);
    assert_eq!(second.epoch, first.epoch + 1);
}

#[tokio::test]
async fn damage_is_named_and_not_passed_on() {
    let planted = [
        ("UPDATE live SET rec = zeroblob(9)", "live record"),
        ("UPDATE trace SET rec = zeroblob(9)", "trace record"),
        ("DELETE FROM job WHERE id = (SELECT max(id) FROM done)", "never published"),
        ("INSERT INTO dead SELECT id, rec FROM done LIMIT 1", "in another table"),
        ("DELETE FROM grouped WHERE waiting = 1", "in no line"),
    ];
    for (statement, expected) in planted {
        let dir = TempDir::new().unwrap();
        fill(dir.path()).await.close().await.unwrap();
        Connection::open(dir.path().join("semel.db")).unwrap().execute(statement, []).unwrap();
        let read = Export::open(dir.path()).unwrap().jobs_after(JobId::ZERO, 1000, usize::MAX);
        let Err(StoreError::Corrupt(why)) = read else { panic!("{statement} was not noticed: {read:?}") };
        assert!(why.contains(expected), "{statement}: {why}");
    }
}
