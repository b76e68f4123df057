//! A batch of commands: one transaction, in which what the commands are about is loaded into a working set, decided there
//! as the memory store would, and what changed is written back.
//!
//! ```text
//!   first flight    BEGIN, locks on the queues, queues, keys, unfinished jobs
//!   (two more       jobs that hold a key, finished jobs; lines of groups: only where there are any)
//!   decide          in memory
//!   last flight     everything that changed, one statement per table and kind of change, and COMMIT
//! ```
//!
//! A batch of nothing but publishes and settles is tried in one call first, on the assumption that keys are new and that
//! deliveries are as this node handed them out (`known`); one of nothing but plain publishes to one queue without so much as a
//! working set (`plain`).
//!
//! Locks are always taken in the same order: queues, keys, jobs, records. A transaction that finds that it holds too little
//! (a queue whose gate changes, under a shared lock) is undone and run again with more; it never takes more on the way.

mod known;
mod lent;
mod load;
mod plain;
mod queue;
mod save;
#[cfg(test)]
mod scene;
mod wants;
mod work;
mod writes;

use std::collections::BTreeSet;

use semel_store::store::BATCH_MAX;
use semel_store::{Answer, Command, Reply, StoreError};

pub(crate) use known::Luck;
pub(crate) use load::read_done;
pub(crate) use load::statements::lean_job_columns;
pub(crate) use save::{look_at, writes};
pub(crate) use work::Work;
pub(crate) use writes::Writes;

use crate::fault::Fault;
use crate::patience::Patience;
use crate::store::PostgresStore;
use plain::Plain;
use wants::Wants;

/// How often a batch is run again because it needs more than it had: more than there are kinds of more. What is still not
/// content then runs after something that changes all the time.
const REPEATS_MAX: u32 = 16;

/// Why a transaction has to be undone.
#[derive(Debug)]
pub(crate) enum Setback {
    /// It needs these queues for itself, or what this node remembered was wrong and has been forgotten: run it again.
    Again { alone: BTreeSet<i32> },
    /// Something failed, and nothing has happened.
    Failed(Fault),
    /// Something failed after COMMIT was sent.
    Unclear(Fault),
}

impl Setback {
    /// What was remembered or loaded is not so any more.
    pub(crate) fn again() -> Self {
        Self::Again { alone: BTreeSet::new() }
    }
}

impl From<Fault> for Setback {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl PostgresStore {
    /// Applies a batch, as often as it takes.
    pub(crate) async fn apply_batch(&self, batch: &[Command]) -> Result<Vec<Answer>, StoreError> {
        if batch.len() > BATCH_MAX {
            return Err(StoreError::TooMany { got: batch.len(), max: BATCH_MAX });
        }
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let mut wants = None;
        let mut patience = Patience::new(self.options.patience);
        let (mut repeats, mut needs) = (0, BTreeSet::new());
        loop {
            let (error, fault) = match self.try_apply(batch, &mut wants, &needs, &patience).await {
                Ok(answers) => {
                    if answers.iter().any(ends_a_pass) {
                        self.tend_days();
                    }
                    return Ok(answers);
                }
                Err(Setback::Again { alone }) if repeats < REPEATS_MAX => {
                    repeats += 1;
                    needs.extend(alone);
                    continue;
                }
                Err(Setback::Again { .. }) => return Err(crowded()),
                Err(Setback::Failed(fault)) => (fault.nothing_done(), fault),
                Err(Setback::Unclear(fault)) => (fault.after_commit(), fault),
            };
            if error.is_unknown() || !patience.again(&fault).await {
                return Err(error);
            }
        }
    }

    async fn try_apply(
        &self,
        batch: &[Command],
        wants: &mut Option<Wants>,
        alone: &BTreeSet<i32>,
        patience: &Patience,
    ) -> Result<Vec<Answer>, Setback> {
        let session = self.pool.session_within(patience).await?;
        // Behind a pooler time-outs and settings travel with BEGIN, and a call of its own has none.
        let in_one_call = self.options.prepare && alone.is_empty();
        let decided = match Plain::of(batch).filter(|_| in_one_call) {
            Some(plain) => plain.apply(self, &session).await?,
            None if in_one_call => {
                known::apply(self, &session, batch, wants.get_or_insert_with(|| Wants::of(batch))).await?
            }
            None => None,
        };
        if let Some(answers) = decided {
            return Ok(answers);
        }
        let wants = wants.get_or_insert_with(|| Wants::of(batch));
        let mut work = Work::prepare(self, &session, wants, alone).await?;
        match run(&mut work, batch, wants).await {
            Ok(answers) => {
                work.committed();
                Ok(answers)
            }
            Err(setback) => {
                work.undo().await;
                Err(setback)
            }
        }
    }
}

/// Runs the parts of a batch one after the other; the last one commits.
async fn run(work: &mut Work<'_>, batch: &[Command], wants: &Wants) -> Result<Vec<Answer>, Setback> {
    let mut answers = Vec::with_capacity(batch.len());
    let mut parts = wants::parts(batch).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            [Command::PutQueue { .. }] => answers.extend(queue::put(work, part, last).await?),
            [Command::DeleteQueue(name)] => answers.push(queue::delete(work, name, part, last).await?),
            [Command::Prune { limit }] => answers.push(Ok(crate::prune::prune(work, *limit, last).await?)),
            _ if part.len() == batch.len() => {
                let (done, writes) = decide(work, part, wants).await?;
                writes.send_all(work).await?;
                work.sent(&writes);
                answers.extend(done);
            }
            _ => {
                let (done, writes) = decide(work, part, &Wants::of(part)).await?;
                writes.send(work, last).await?;
                work.sent(&writes);
                answers.extend(done);
            }
        }
    }
    Ok(answers)
}

/// Answers commands about single jobs, keys and records, and says what has to be written.
async fn decide(
    work: &mut Work<'_>,
    commands: &[Command],
    wants: &Wants,
) -> Result<(Vec<Answer>, Writes), Setback> {
    let mut loaded = load::load(work, wants).await?;
    let answers = work.decide(&mut loaded, commands);
    let writes = save::save(work, loaded, &answers)?;
    Ok((answers, writes))
}

/// Whether nothing is left to prune: then there is time for the rest of the upkeep.
fn ends_a_pass(answer: &Answer) -> bool {
    matches!(answer, Ok(Reply::Pruned { more: false, .. }))
}

fn crowded() -> StoreError {
    let what = "the queues of this batch change faster than it can be applied".into();
    StoreError::Busy { what, retry_after: std::time::Duration::from_secs(1) }
}
