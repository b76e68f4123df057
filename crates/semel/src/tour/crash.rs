//! The last act: a process is killed in the middle of a publish, and everything it had been answered is there.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Instant;

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Publish, Published};
use semel_core::queue::QueueConfig;
use semel_store::{Command, Reply, Store};
use semel_store_embedded::{EmbeddedStore, Options};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::stage::unexpected;
use super::telling::Telling;
use crate::failure::Failure;
use crate::kin::{self, Kin};
use crate::{opening, text};

/// Jobs of one commit of the child.
const BATCH: u64 = 100;
/// How many jobs must have been answered before the kill: some dozens of commits.
const ENOUGH: usize = 5000;
/// The signal that nobody can catch.
const SIGKILL: i32 = 9;

/// What the child says after each commit: the jobs it was answered, in the order of their numbers.
#[derive(Debug, Serialize, Deserialize)]
struct Answered {
    first: u64,
    ids: Vec<JobId>,
}

/// Lets a child publish, kills it, reopens the store and publishes everything again.
pub(crate) fn kill_in_mid_publish(telling: &mut Telling, dir: &Path) -> Result<(), Failure> {
    telling.act("What was answered survives kill -9")?;
    let mut child = Kin::spawn(&["tour-publish"], dir)?;
    let pid = child.pid();
    let acknowledged = listen_and_kill(&mut child)?;
    telling.call(
        format!("process {pid} publishes as fast as it can; kill -9 {pid} in mid-publish"),
        format!("killed; it had been answered {} jobs", text::count(acknowledged.len() as u64)),
    )?;
    let start = Instant::now();
    let store = opening::store(dir, Options::default())?;
    telling.call(
        "open the directory again; no repair step",
        format!("open after {}", text::span(start.elapsed())),
    )?;
    let after = Aftermath::examine(&opening::runtime()?, &store, dir, &acknowledged)?;
    telling.call(
        "publish every one of them again, with its key, and a batch after the last answer",
        format!(
            "{} returned the first job; of the last {BATCH}, whose answer was lost, {} had been stored",
            text::count(after.returned),
            after.unanswered
        ),
    )?;
    telling.promise(
        after.returned == acknowledged.len() as u64,
        "every acknowledged job is there, under its id and key",
    )?;
    telling.promise(
        after.stored == acknowledged.len() as u64 + BATCH,
        "and no job twice: the retries made up what was missing",
    )
}

fn listen_and_kill(child: &mut Kin) -> Result<Vec<JobId>, Failure> {
    let mut acknowledged = Vec::new();
    while let Some(answered) = child.next_line::<Answered>()? {
        debug_assert_eq!(answered.first, acknowledged.len() as u64);
        acknowledged.extend(answered.ids);
        if acknowledged.len() >= ENOUGH {
            break;
        }
    }
    let status = child.kill()?;
    if status.signal() != Some(SIGKILL) {
        return Err(Failure::Broken(format!(
            "the publishing process ended by itself ({status}) before it was killed"
        )));
    }
    // What it was told before it died may still be in the pipe.
    while let Some(answered) = child.next_line::<Answered>()? {
        acknowledged.extend(answered.ids);
    }
    Ok(acknowledged)
}

/// What was found after the kill.
struct Aftermath {
    /// Acknowledged jobs whose repeated publish returned the first job's id.
    returned: u64,
    /// Jobs of the batch without an answer that had been stored all the same.
    unanswered: u64,
    /// Jobs in the store in the end.
    stored: u64,
}

impl Aftermath {
    fn examine(
        runtime: &Runtime,
        store: &EmbeddedStore,
        dir: &Path,
        acknowledged: &[JobId],
    ) -> Result<Self, Failure> {
        let mut returned = 0;
        let known = acknowledged.len() as u64;
        for first in (0..known).step_by(usize::try_from(BATCH).expect("100 fits a usize")) {
            let answers = publish(runtime, store, dir, first)?;
            let expected = acknowledged.iter().skip(usize::try_from(first).unwrap_or(usize::MAX));
            returned +=
                answers.iter().zip(expected).filter(|(a, id)| a.id == **id && a.deduplicated).count() as u64;
        }
        let lost = publish(runtime, store, dir, known)?;
        let unanswered = lost.iter().filter(|a| a.deduplicated).count() as u64;
        let stats = runtime.block_on(store.stats()).map_err(Failure::store(dir))?;
        let stored = stats.queues.iter().map(semel_store::QueueStats::unfinished).sum();
        runtime.block_on(store.close()).map_err(Failure::store(dir))?;
        Ok(Self { returned, unanswered, stored })
    }
}

/// The child: publishes until it is killed, or nobody listens any more.
pub(crate) fn be_publisher(dir: &Path) -> Result<(), Failure> {
    let runtime = opening::runtime()?;
    let store = opening::store(dir, Options::default())?;
    let put = Command::PutQueue { name: queue()?, config: Box::new(QueueConfig::default()) };
    runtime.block_on(store.apply(vec![put])).map_err(Failure::store(dir))?;
    for first in (0..).step_by(usize::try_from(BATCH).expect("100 fits a usize")) {
        let ids = publish(&runtime, &store, dir, first)?.into_iter().map(|job| job.id).collect();
        kin::say(&Answered { first, ids })?;
    }
    Ok(())
}

/// Publishes the batch that starts with job number `first`.
fn publish(
    runtime: &Runtime,
    store: &EmbeddedStore,
    dir: &Path,
    first: u64,
) -> Result<Vec<Published>, Failure> {
    let batch =
        (first..first + BATCH).map(|n| Ok(Command::Publish(job(n)?))).collect::<Result<Vec<_>, Failure>>()?;
    let answers = runtime.block_on(store.apply(batch)).map_err(Failure::store(dir))?;
    let published = |answer: semel_store::Answer| match answer? {
        Reply::Published(published) => Ok(published),
        other => Err(unexpected(&other)),
    };
    answers.into_iter().map(published).collect()
}

fn job(number: u64) -> Result<Publish, Failure> {
    let payload = Payload::from_json(format!(r#"{{"order":{number}}}"#))?;
    Ok(Draft::new(queue()?, payload).with_key(Key::try_from(format!("order-{number}"))?).check()?)
}

fn queue() -> Result<QueueName, Failure> {
    Ok(QueueName::try_from("orders")?)
}
