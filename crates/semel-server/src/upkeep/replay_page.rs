//! One page of a replay: looks at dead letters, counts them, and replays those that the task asks for.

use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::lifecycle::State;
use semel_core::replay::{Preflight, ReplayCounts, ReplayRecord, preflight};
use semel_store::group_commit::CommitError;
use semel_store::{Command, Cursor, JobQuery};

use super::role::Trouble;
use crate::service::Service;

/// What one page came to.
#[derive(Debug)]
pub(super) struct Done {
    /// What it adds to the counts.
    pub(super) counts: ReplayCounts,
    /// Jobs below this id are still to be looked at.
    pub(super) cursor: Option<JobId>,
    /// Whether that was all.
    pub(super) ended: bool,
    /// What kept the rest of the page from being done, if anything did. It is looked at again.
    pub(super) trouble: Option<Trouble>,
}

/// Does one page of a task: up to `limit` dead letters, of which up to `quota` are replayed.
pub(super) async fn run(
    service: &Service,
    task: &ReplayRecord,
    limit: u32,
    quota: usize,
) -> Result<Done, Trouble> {
    let query = JobQuery {
        queue: Some(task.queue.clone()),
        state: Some(State::Dead),
        group: task.filter.group.clone(),
        limit,
        cursor: task.cursor.map(|below| Cursor { below }),
        ..JobQuery::default()
    };
    let page = service.store.jobs(query).await?;
    let taken = within_quota(&page.items, task, quota);
    let rest_left = taken < page.items.len();
    let looked_at = &page.items[..taken];
    let mut done = act(service, task, looked_at).await;
    if done.trouble.is_none() {
        let last = looked_at.last().map(|job| job.id);
        done.cursor = if rest_left { last } else { page.next.map(|next| next.below) };
        done.ended = !rest_left && page.next.is_none();
    }
    Ok(done)
}

/// Whether a task is for this dead letter. One that died after the task began is not: it may be one that the task itself
/// has replayed.
fn is_for(task: &ReplayRecord, job: &Job) -> bool {
    job.progress.finished_at.is_some_and(|ended| ended <= task.created_at) && task.filter.matches(job)
}

/// How many jobs of a page are looked at before `quota` of them are to be replayed.
fn within_quota(jobs: &[Job], task: &ReplayRecord, quota: usize) -> usize {
    let matching = jobs.iter().enumerate().filter(|(_, job)| is_for(task, job));
    matching.map(|(at, _)| at + 1).nth(quota.saturating_sub(1)).unwrap_or(jobs.len())
}

/// What became of one job of a page.
enum Fate {
    Passed,
    Replayed,
    Refused,
    NotDone(CommitError),
}

async fn act(service: &Service, task: &ReplayRecord, jobs: &[Job]) -> Done {
    let wanted: Vec<_> = jobs.iter().map(|job| is_for(task, job)).collect();
    let replays = |job: &Job| !task.dry_run && is_for(task, job);
    let commands = jobs.iter().filter(|job| replays(job)).map(|job| Command::Replay(job.id)).collect();
    let mut outcomes = service.commit.submit_all(commands).await.into_iter();
    let fates = jobs.iter().zip(&wanted).map(|(job, wanted)| match wanted {
        false => Fate::Passed,
        // What a dry run says is what would happen: without its payload a job cannot be replayed.
        true if task.dry_run && job.spec.payload.is_none() => Fate::Refused,
        true if task.dry_run => Fate::Passed,
        true => match outcomes.next() {
            Some(Ok(_)) => Fate::Replayed,
            Some(Err(CommitError::Refused(_))) => Fate::Refused,
            Some(Err(error)) => Fate::NotDone(error),
            None => Fate::Refused,
        },
    });
    let fates: Vec<_> = fates.collect();
    tally(task, jobs, &wanted, fates)
}

/// Counts what was done. Jobs from the first that was not done on are looked at again, so only those of them count now that
/// will not be met again because they are no longer dead.
fn tally(task: &ReplayRecord, jobs: &[Job], wanted: &[bool], fates: Vec<Fate>) -> Done {
    let mut done = Done { counts: ReplayCounts::default(), cursor: task.cursor, ended: false, trouble: None };
    for ((job, wanted), fate) in jobs.iter().zip(wanted).zip(fates) {
        match fate {
            Fate::Replayed => done.counts.replayed += 1,
            Fate::NotDone(error) => {
                done.trouble.get_or_insert(error.into());
                continue;
            }
            Fate::Passed | Fate::Refused if done.trouble.is_some() => continue,
            Fate::Refused => done.counts.refused += 1,
            Fate::Passed => {}
        }
        count(&mut done.counts, job, *wanted);
        if done.trouble.is_none() {
            done.cursor = Some(job.id);
        }
    }
    done
}

fn count(counts: &mut ReplayCounts, job: &Job, matched: bool) {
    counts.looked_at += 1;
    if !matched {
        return;
    }
    counts.matched += 1;
    match preflight(job) {
        Preflight::Applied => counts.applied += 1,
        Preflight::NotApplied => counts.not_applied += 1,
        Preflight::Unknown => counts.unknown += 1,
    }
}

/// Adds up two counts.
pub(super) fn add(counts: &mut ReplayCounts, more: &ReplayCounts) {
    counts.looked_at += more.looked_at;
    counts.matched += more.matched;
    counts.replayed += more.replayed;
    counts.refused += more.refused;
    counts.applied += more.applied;
    counts.not_applied += more.not_applied;
    counts.unknown += more.unknown;
}

#[cfg(test)]
mod tests {
    use semel_core::queue::QueueConfig;
    use semel_core::refusal::Refusal;
    use semel_core::replay::{ReplayFilter, ReplayState};
    use semel_store::StoreError;

    use super::super::stage::{Stage, name};
    use super::*;

    #[tokio::test]
    async fn what_was_not_done_is_looked_at_again_and_nothing_counts_twice() {
        let stage = Stage::new().await;
        stage.queue("q", QueueConfig::default()).await;
        let mut jobs = Vec::new();
        for _ in 0..5 {
            let id = stage.dead("q", None, "boom").await;
            jobs.push(stage.job(id).await);
        }
        let task = ReplayRecord {
            id: "one".into(),
            queue: name("q"),
            filter: ReplayFilter::default(),
            rate: None,
            dry_run: false,
            state: ReplayState::Running,
            created_at: stage.now(),
            finished_at: None,
            cursor: None,
            counts: ReplayCounts::default(),
        };
        let lost = || CommitError::Store(StoreError::Unknown("lost".into()));
        // Past the first that was not done, only a job that is no longer dead counts: the others are met again.
        let fates = vec![Fate::Replayed, Fate::Refused, Fate::NotDone(lost()), Fate::Refused, Fate::Replayed];
        let done = tally(&task, &jobs, &[true; 5], fates);
        let counts = done.counts;
        assert_eq!((counts.looked_at, counts.matched, counts.replayed, counts.refused), (3, 3, 2, 1));
        assert_eq!(done.cursor, Some(jobs[1].id));
        assert!(matches!(done.trouble, Some(Trouble::Commit(CommitError::Store(StoreError::Unknown(_))))));
        let refused = CommitError::Refused(Refusal::JobNotFound(jobs[0].id));
        let done = tally(&task, &jobs, &[true; 5], vec![Fate::NotDone(refused)]);
        assert_eq!((done.counts, done.cursor), (ReplayCounts::default(), None), "nothing was done at all");
    }
}
