//! The dedupe dry run: what other keys, or another window, would have done to the jobs of the last day. It changes nothing.

mod expression;
mod judge;

use std::panic::resume_unwind;
use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::job::{Job, JobSpec};
use semel_core::lifecycle::State;
use semel_core::payload::Payload;
use semel_core::queue::QueueConfig;
use semel_core::records::QueueRecord;
use semel_core::time::{Millis, Timestamp};
use semel_store::{JobQuery, Store, StoreError};

pub use self::expression::Expression;
pub use self::judge::{Sample, Suppressed, Verdict};

use self::expression::Evaluated;
use crate::upkeep::page_of;

/// Jobs that are looked at, the newest first. What comes after the ten thousandth shows nothing new about a key.
const JOBS_MAX: usize = 10_000;

/// How far back one may look: jobs are seldom kept for longer.
pub const OVER_MAX: Millis = Millis::from_days(31);

/// What is asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// What keys are to be made of.
    pub expression: Expression,
    /// How long they are to hold after the end of their job.
    pub window: Millis,
    /// How far back to look.
    pub over: Millis,
    /// Bytes of payloads and metadata that may be in hand.
    pub bytes: usize,
}

/// What a dry run found.
#[derive(Debug, Default)]
pub struct DryRun {
    /// The jobs that were looked at were published from here on.
    pub from: Timestamp,
    /// The time of the run.
    pub to: Timestamp,
    /// How many jobs were looked at.
    pub jobs: usize,
    /// Whether there are older ones that were not.
    pub truncated: bool,
    /// Jobs in which a placeholder has no value.
    pub without_key: usize,
    /// Jobs whose key would be refused.
    pub unfit: usize,
    /// Jobs whose payload is no longer kept.
    pub payload_gone: usize,
    /// Jobs that were published under a key.
    pub keyed: usize,
    /// Publishes that the present keys suppressed.
    pub suppressed_now: u64,
    /// What the keys would have done.
    pub verdict: Verdict,
}

/// What is kept of a job while it is looked at.
#[derive(Debug, Clone)]
struct Line {
    id: JobId,
    spec: Arc<JobSpec>,
    state: State,
    finished_at: Option<Timestamp>,
    duplicates: u32,
    key: Evaluated,
}

/// Asks what would have been.
pub async fn run(store: &dyn Store, record: &QueueRecord, question: Question) -> Result<DryRun, StoreError> {
    let to = store.now();
    let from = Timestamp::from_millis(to.millis().saturating_sub(question.over.millis()));
    let (lines, truncated) = gather(store, record, &question, from).await?;
    let config = record.config.clone();
    // Reading that many payloads takes a while, in which a thread of the runtime would answer nobody.
    let examined = tokio::task::spawn_blocking(move || examine(lines, &question, &config)).await;
    let found = examined.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        // A runtime that shuts down does not begin what was queued.
        Err(_cancelled) => StoreError::Closed,
    })?;
    let from = found.oldest.filter(|_| truncated).unwrap_or(from);
    Ok(DryRun { from, to, truncated, ..found.run })
}

/// What was found, and when the oldest job of it was published.
struct Found {
    run: DryRun,
    oldest: Option<Timestamp>,
}

/// Goes through jobs: what their keys would have been, and what those would have done.
fn examine(mut lines: Vec<Line>, question: &Question, config: &QueueConfig) -> Found {
    lines.iter_mut().for_each(|line| line.key = question.expression.evaluate(&line.spec));
    // By time of publish, because that is the order in which keys are taken.
    lines.sort_by_key(|line| (line.spec.created_at, line.id));
    let count = |wanted: &Evaluated| lines.iter().filter(|line| line.key == *wanted).count();
    let run = DryRun {
        jobs: lines.len(),
        without_key: count(&Evaluated::Nothing),
        unfit: count(&Evaluated::Unfit),
        payload_gone: count(&Evaluated::Gone),
        keyed: lines.iter().filter(|line| line.spec.key.is_some()).count(),
        suppressed_now: lines.iter().map(|line| u64::from(line.duplicates)).sum(),
        verdict: judge::judge(&lines, question.window, config),
        ..DryRun::default()
    };
    Found { run, oldest: lines.first().map(|line| line.spec.created_at) }
}

/// The jobs, newest first, page by page; whether there are more.
async fn gather(
    store: &dyn Store,
    record: &QueueRecord,
    question: &Question,
    from: Timestamp,
) -> Result<(Vec<Line>, bool), StoreError> {
    let (queue, limit) = (Some(record.name.clone()), page_of(&record.config));
    let mut query = JobQuery { queue, from: Some(from), limit, ..JobQuery::default() };
    let (mut lines, mut bytes) = (Vec::new(), 0_usize);
    loop {
        let page = store.jobs(query.clone()).await?;
        for job in page.items {
            bytes = bytes.saturating_add(size(&job.spec));
            if lines.len() >= JOBS_MAX || bytes > question.bytes {
                return Ok((lines, true));
            }
            lines.push(Line::of(job));
        }
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok((lines, false)),
        }
    }
}

/// The bytes that a job keeps in hand.
fn size(spec: &JobSpec) -> usize {
    let metadata: usize = spec.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    spec.payload.as_ref().map_or(0, Payload::len) + metadata
}

impl Line {
    /// A job whose key is not known yet. Its history stays behind: it may be larger than its payload.
    fn of(job: Job) -> Self {
        Self {
            id: job.id,
            key: Evaluated::Nothing,
            state: job.progress.state,
            finished_at: job.progress.finished_at,
            duplicates: job.duplicates,
            spec: job.spec,
        }
    }
}
