//! Runs replay tasks: page by page, at the rate each asks for, until it is done or called off.
//!
//! A task is in the store, with how far it has come, so it goes on after a restart where it stopped. What a page did is
//! written down after the page: a crash in between looks at that page again, and finds that what it replayed is no longer
//! dead. Only the counts of that page are lost.

use std::collections::HashMap;
use std::sync::Arc;

use semel_core::refusal::Refusal;
use semel_core::replay::{ReplayRecord, ReplayState};
use semel_core::time::{Millis, Timestamp};
use semel_store::Command;
use semel_store::group_commit::CommitError;

use super::page_of;
use super::replay_page::{self, Done};
use super::role::{Next, Role, Trouble};
use crate::service::Service;

/// How soon a new task is noticed that was made at another node and not heard. Others are told.
const LOOK_AGAIN: Millis = Millis::from_secs(15);

/// How long a task is kept after its end: who started it on Friday looks at it on Monday.
const KEPT_FOR: Millis = Millis::from_days(7);

/// Runs replay tasks.
pub(super) struct Replays {
    service: Arc<Service>,
    /// When each task may replay more.
    paced: HashMap<String, Timestamp>,
}

impl Replays {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service, paced: HashMap::new() }
    }

    /// A task as it stands now; `None` if it is no longer running.
    async fn still_running(&self, id: &str) -> Result<Option<ReplayRecord>, Trouble> {
        let tasks = self.service.store.replays().await?;
        Ok(tasks.into_iter().find(|task| task.id == id && task.state == ReplayState::Running))
    }

    /// Does one page of a task, unless its rate forbids, and says when it can go on.
    async fn advance(&mut self, id: &str) -> Result<Timestamp, Trouble> {
        let now = self.service.store.now();
        if let Some(again) = self.paced.get(id).filter(|again| **again > now) {
            return Ok(*again);
        }
        // Read anew before every page: somebody may have called it off.
        let Some(task) = self.still_running(id).await? else { return Ok(now.plus(LOOK_AGAIN)) };
        let Some(queue) = self.service.store.queue(&task.queue).await? else {
            return self.forget(id).await.map(|()| now.plus(LOOK_AGAIN));
        };
        let quota = task.rate.filter(|_| !task.dry_run).map_or(usize::MAX, |rate| rate as usize);
        let done = replay_page::run(&self.service, &task, page_of(&queue.config), quota).await?;
        write_down(&self.service, id, &done).await?;
        if let Some(trouble) = done.trouble {
            return Err(trouble);
        }
        let again = now.plus(pause(&task, done.counts.replayed));
        self.paced.insert(id.to_owned(), again);
        Ok(again)
    }

    async fn forget(&self, id: &str) -> Result<(), Trouble> {
        match self.service.commit.submit(Command::DeleteReplay(id.to_owned())).await {
            Ok(_) | Err(CommitError::Refused(Refusal::RecordNotFound { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// How long a task that replayed so many has to wait.
fn pause(task: &ReplayRecord, replayed: u64) -> Millis {
    let rate = task.rate.map(|rate| u64::from(rate.max(1)));
    rate.map_or(Millis::ZERO, |rate| Millis::from_millis((replayed * 1000).div_ceil(rate)))
}

/// Writes down what a page did. If the task was called off meanwhile it stays so: only the counts are added.
async fn write_down(service: &Service, id: &str, done: &Done) -> Result<(), Trouble> {
    let _turn = service.replay_tasks.lock().await;
    let tasks = service.store.replays().await?;
    let Some(mut task) = tasks.into_iter().find(|task| task.id == id) else { return Ok(()) };
    replay_page::add(&mut task.counts, &done.counts);
    task.cursor = done.cursor;
    if done.ended && task.state == ReplayState::Running {
        task.state = ReplayState::Done;
        task.finished_at = Some(service.store.now());
    }
    Ok(put(service, task).await.map(drop)?)
}

/// Calls a task off. What it had replayed stays replayed, and a page that is under way is finished. A task that has ended
/// stays as it is.
pub(crate) async fn cancel(service: &Service, id: &str) -> Result<Option<ReplayRecord>, CommitError> {
    let _turn = service.replay_tasks.lock().await;
    let tasks = service.store.replays().await?;
    let Some(mut task) = tasks.into_iter().find(|task| task.id == id) else { return Ok(None) };
    if task.state != ReplayState::Running {
        return Ok(Some(task));
    }
    task.state = ReplayState::Cancelled;
    task.finished_at = Some(service.store.now());
    put(service, task).await.map(Some)
}

async fn put(service: &Service, task: ReplayRecord) -> Result<ReplayRecord, CommitError> {
    match service.commit.submit(Command::PutReplay(Box::new(task.clone()))).await {
        // A queue that is taken away takes its dead letters along: there is nothing left to write down.
        Ok(_) | Err(CommitError::Refused(Refusal::QueueNotFound(_))) => Ok(task),
        Err(error) => Err(error),
    }
}

impl Role for Replays {
    const NAME: &'static str = "replays";

    fn is_for_all_nodes(&self) -> bool {
        true
    }

    async fn run_once(&mut self) -> Result<Next, Trouble> {
        let now = self.service.store.now();
        let tasks = self.service.store.replays().await?;
        let (running, ended): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|task| task.state == ReplayState::Running);
        for task in ended {
            if task.finished_at.is_some_and(|at| now.since(at) >= KEPT_FOR) {
                self.forget(&task.id).await?;
            }
        }
        self.paced.retain(|id, _| running.iter().any(|task| task.id == *id));
        let mut next = now.plus(LOOK_AGAIN);
        // One page of each in turn: a long task does not keep a short one waiting.
        for task in running {
            next = next.min(self.advance(&task.id).await?);
        }
        Ok(if next <= now { Next::Soon } else { Next::AtOrTold(next) })
    }
}

#[cfg(test)]
mod tests {
    use semel_core::ids::JobId;
    use semel_core::lifecycle::State;
    use semel_core::queue::QueueConfig;
    use semel_core::replay::{ReplayCounts, ReplayFilter};

    use super::super::stage::{Stage, name};
    use super::*;

    fn task(stage: &Stage) -> ReplayRecord {
        ReplayRecord {
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
        }
    }

    async fn stage_with(dead: usize) -> (Stage, Vec<JobId>) {
        let stage = Stage::new().await;
        stage.queue("q", QueueConfig::default()).await;
        let mut ids = Vec::new();
        for n in 0..dead {
            ids.push(stage.dead("q", None, if n % 2 == 0 { "even" } else { "odd" }).await);
        }
        (stage, ids)
    }

    async fn start(stage: &Stage, task: ReplayRecord) -> Replays {
        stage.submit(Command::PutReplay(Box::new(task))).await;
        Replays::new(stage.service.clone())
    }

    async fn stored(stage: &Stage) -> ReplayRecord {
        stage.service.store.replays().await.unwrap().pop().unwrap()
    }

    async fn states(stage: &Stage, ids: &[JobId]) -> Vec<State> {
        let mut states = Vec::new();
        for id in ids {
            states.push(stage.job(*id).await.progress.state);
        }
        states
    }

    /// Runs until the role has nothing to do at once.
    async fn run(role: &mut Replays) {
        while role.run_once().await.unwrap() == Next::Soon {}
    }

    #[tokio::test]
    async fn everything_is_replayed_and_counted() {
        let (stage, ids) = stage_with(300).await;
        let mut role = start(&stage, task(&stage)).await;
        run(&mut role).await;
        let ended = stored(&stage).await;
        assert_eq!((ended.state, ended.finished_at), (ReplayState::Done, Some(stage.now())));
        let counts = ended.counts;
        assert_eq!((counts.looked_at, counts.matched, counts.replayed, counts.unknown), (300, 300, 300, 300));
        assert!(states(&stage, &ids).await.iter().all(|state| *state == State::Pending));
    }

    #[tokio::test]
    async fn a_filter_takes_some_and_a_dry_run_none() {
        let (stage, ids) = stage_with(4).await;
        let filter = ReplayFilter { error: Some("odd".into()), ..ReplayFilter::default() };
        let dry = ReplayRecord { dry_run: true, filter: filter.clone(), rate: Some(1), ..task(&stage) };
        let mut role = start(&stage, dry).await;
        run(&mut role).await;
        let counts = stored(&stage).await.counts;
        assert_eq!((counts.looked_at, counts.matched, counts.replayed), (4, 2, 0));
        assert!(states(&stage, &ids).await.iter().all(|state| *state == State::Dead));

        let mut role = start(&stage, ReplayRecord { id: "two".into(), filter, ..task(&stage) }).await;
        run(&mut role).await;
        assert_eq!(stored(&stage).await.counts.replayed, 2);
        assert_eq!(states(&stage, &ids).await, [State::Dead, State::Pending, State::Dead, State::Pending]);
    }

    #[tokio::test]
    async fn a_rate_is_kept_and_a_restart_goes_on_at_the_cursor() {
        let (stage, ids) = stage_with(5).await;
        let mut role = start(&stage, ReplayRecord { rate: Some(2), ..task(&stage) }).await;
        role.run_once().await.unwrap();
        role.run_once().await.unwrap();
        assert_eq!(stored(&stage).await.counts.replayed, 2, "two a second");
        assert_eq!(states(&stage, &ids[3..]).await, [State::Pending; 2], "the newest first");

        let mut restarted = Replays::new(stage.service.clone());
        stage.alarm.advance(Millis::from_secs(1));
        restarted.run_once().await.unwrap();
        assert_eq!(stored(&stage).await.counts.replayed, 4);
        stage.alarm.advance(Millis::from_millis(999));
        restarted.run_once().await.unwrap();
        assert_eq!(stored(&stage).await.state, ReplayState::Running);
        stage.alarm.advance(Millis::from_millis(1));
        run(&mut restarted).await;
        let ended = stored(&stage).await;
        assert_eq!((ended.state, ended.counts.looked_at, ended.counts.replayed), (ReplayState::Done, 5, 5));
    }

    #[tokio::test]
    async fn a_job_that_died_again_is_not_replayed_twice() {
        let (stage, ids) = stage_with(2).await;
        let mut role = start(&stage, ReplayRecord { rate: Some(1), ..task(&stage) }).await;
        role.run_once().await.unwrap();
        stage.alarm.advance(Millis::from_secs(1));
        assert_eq!(stage.kill("q", "again").await, ids[1]);
        // As if the place had not been written down before a crash.
        let lost = ReplayRecord { cursor: None, ..stored(&stage).await };
        let mut role = start(&stage, lost).await;
        run(&mut role).await;
        stage.alarm.advance(Millis::from_secs(1));
        run(&mut role).await;
        assert_eq!(stored(&stage).await.state, ReplayState::Done);
        assert_eq!(states(&stage, &ids).await, [State::Pending, State::Dead]);
    }

    #[tokio::test]
    async fn what_a_filter_passes_over_is_looked_at_once() {
        let (stage, _) = stage_with(6).await;
        let filter = ReplayFilter { error: Some("even".into()), ..ReplayFilter::default() };
        let mut role = start(&stage, ReplayRecord { rate: Some(1), filter, ..task(&stage) }).await;
        for _ in 0..4 {
            run(&mut role).await;
            stage.alarm.advance(Millis::from_secs(1));
        }
        let ended = stored(&stage).await;
        assert_eq!((ended.state, ended.counts.looked_at, ended.counts.replayed), (ReplayState::Done, 6, 3));
    }

    #[tokio::test]
    async fn a_task_that_was_called_off_goes_no_further() {
        let (stage, ids) = stage_with(2).await;
        let mut role = start(&stage, task(&stage)).await;
        cancel(&stage.service, "one").await.unwrap().unwrap();
        role.advance("one").await.unwrap();
        run(&mut role).await;
        assert_eq!(states(&stage, &ids).await, [State::Dead; 2]);
        assert_eq!(stored(&stage).await.finished_at, Some(stage.now()));
    }

    #[tokio::test]
    async fn a_page_that_was_under_way_does_not_undo_a_cancel() {
        let (stage, _) = stage_with(2).await;
        start(&stage, task(&stage)).await;
        let page = replay_page::run(&stage.service, &stored(&stage).await, 10, usize::MAX).await.unwrap();
        assert!(page.ended);
        cancel(&stage.service, "one").await.unwrap().unwrap();
        write_down(&stage.service, "one", &page).await.unwrap();
        let ended = stored(&stage).await;
        assert_eq!(
            (ended.state, ended.counts.replayed),
            (ReplayState::Cancelled, 2),
            "what it did is counted"
        );
    }

    #[tokio::test]
    async fn the_task_of_a_queue_that_is_gone_goes_too() {
        let (stage, _) = stage_with(0).await;
        let mut role = start(&stage, task(&stage)).await;
        stage.submit(Command::DeleteQueue(name("q"))).await;
        run(&mut role).await;
        assert_eq!(stage.service.store.replays().await.unwrap(), []);
    }

    #[tokio::test]
    async fn an_ended_task_is_kept_for_a_week() {
        let (stage, _) = stage_with(0).await;
        let mut role = start(&stage, task(&stage)).await;
        run(&mut role).await;
        stage.alarm.advance(KEPT_FOR.minus(Millis::from_millis(1)));
        run(&mut role).await;
        assert_eq!(stage.service.store.replays().await.unwrap().len(), 1);
        stage.alarm.advance(Millis::from_millis(1));
        run(&mut role).await;
        assert_eq!(stage.service.store.replays().await.unwrap(), []);
    }
}
