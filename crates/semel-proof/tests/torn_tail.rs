//! The end of the log is torn, as a crash leaves it (fault 5): every commit before the tear is there, and nothing after it.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_proof::dice::Dice;
use semel_proof::specimen::{Files, read_files, scratch, write_files};
use semel_proof::survey::Survey;
use semel_proof::wal::Commits;
use semel_proof::workload::block_on;
use semel_store::{Command, Reply, Store};
use semel_store_embedded::{EmbeddedStore, Options};

/// Commits of a few jobs each: few enough that nothing of the log is moved into the database meanwhile.
const COMMITS: usize = 30;
const LOG: &str = "semel.db-wal";

fn queue() -> QueueName {
    QueueName::try_from("q").unwrap()
}

fn open(dir: &Path) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(dir, Options { reserve_bytes: 0, ..Options::default() }).unwrap())
}

/// Publishes three jobs in one commit.
fn publish(store: &Arc<dyn Store>, name: &str) -> BTreeSet<JobId> {
    let payload = Payload::from_json(format!("\"{}\"", "x".repeat(3000))).unwrap();
    let draft =
        |n| Draft::new(queue(), payload.clone()).with_key(Key::try_from(format!("{name}-{n}")).unwrap());
    let batch = (0..3).map(|n| Command::Publish(draft(n).check().unwrap())).collect();
    let answers = block_on(store.apply(batch)).unwrap();
    answers
        .into_iter()
        .map(|answer| if let Ok(Reply::Published(p)) = answer { p.id } else { panic!("{answer:?}") })
        .collect()
}

/// The jobs of one publish, and where in the log its commit must lie: it had not begun before `after`, and it was whole at
/// `by`. The store may commit on its own account in between, so the two are measured, not counted.
struct Published {
    jobs: BTreeSet<JobId>,
    after: usize,
    by: usize,
}

/// Bytes of the log that are whole commits by now.
fn committed(dir: &Path) -> usize {
    Commits::of(&std::fs::read(dir.join(LOG)).unwrap()).0.last().map_or(0, |commit| commit.end)
}

/// The files of a store that was killed after its last commit, and what was published into it.
fn killed_store() -> (Files, Vec<Published>) {
    let home = scratch().unwrap();
    let store = open(home.path());
    block_on(
        store.apply(vec![Command::PutQueue { name: queue(), config: Box::new(QueueConfig::default()) }]),
    )
    .unwrap();
    let publishes = (0..COMMITS).map(|n| {
        let after = committed(home.path());
        let jobs = publish(&store, &format!("k{n}"));
        Published { jobs, after, by: committed(home.path()) }
    });
    let publishes = publishes.collect();
    (read_files(home.path()).unwrap(), publishes)
}

/// Opens files and says which jobs are there; then shows that the store goes on.
fn survivors(files: &Files) -> BTreeSet<JobId> {
    let home = scratch().unwrap();
    write_files(home.path(), files).unwrap();
    let store = open(home.path());
    let survey = block_on(Survey::read(&store, [])).unwrap();
    let found: BTreeSet<JobId> = survey.jobs.keys().copied().collect();
    if survey.stats.queues.iter().any(|stats| stats.queue == queue()) {
        assert!(publish(&store, "after").is_disjoint(&found), "an id was given out twice");
    }
    found
}

/// Lengths to cut the log to: every end of a commit and around it, and some places in between.
fn cuts(log: &[u8], commits: &Commits) -> Vec<usize> {
    let mut dice = Dice::new(5);
    let ends = commits.0.iter().flat_map(|c| [c.end - 1, c.end, c.end + 1, c.end + 24, c.end + 24 + 512]);
    let mut cuts: Vec<_> = ends.filter(|&cut| cut <= log.len()).collect();
    cuts.extend((0..20).map(|_| dice.index(log.len())));
    // The first commit was synced before the store answered anything: a log without it was not torn but taken away, and
    // `flipped_bits` shows that such a store is refused.
    cuts.retain(|&cut| cut >= commits.0[0].end);
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Every publish that was whole before the tear is there, none that came after it, and none in part.
fn judge(found: &BTreeSet<JobId>, publishes: &[Published], cut: usize) -> Result<(), String> {
    for (n, Published { jobs, after, by }) in publishes.iter().enumerate() {
        match jobs.intersection(found).count() {
            0 if *by <= cut => return Err(format!("publish {n}, whole at byte {by}, is lost")),
            0 => {}
            _ if *after >= cut => return Err(format!("publish {n}, begun at byte {after}, is there")),
            some if some < jobs.len() => return Err(format!("{some} jobs of publish {n} are there")),
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn heavy_a_torn_tail_loses_nothing_before_the_tear() {
    let (files, publishes) = killed_store();
    let log = &files[Path::new(LOG)];
    let commits = Commits::of(log);
    assert!(commits.0.len() >= COMMITS, "every publish is a commit of the log");
    let all: BTreeSet<JobId> = publishes.iter().flat_map(|publish| &publish.jobs).copied().collect();
    let mut dice = Dice::new(9);
    for cut in cuts(log, &commits) {
        for garbage in [0, dice.within(1..=9000)] {
            let mut torn = files.clone();
            let tail = (0..garbage).map(|_| u8::try_from(dice.below(256)).unwrap());
            torn.insert(LOG.into(), log[..cut].iter().copied().chain(tail).collect());
            let found = survivors(&torn);
            assert!(found.is_subset(&all), "cut at {cut}: jobs that nobody published");
            if let Err(why) = judge(&found, &publishes, cut) {
                panic!("cut at {cut} of {} with {garbage} bytes of garbage: {why}", log.len());
            }
        }
    }
}
