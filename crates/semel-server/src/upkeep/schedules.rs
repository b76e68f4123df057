//! Publishes what schedules ask for, tick by tick.
//!
//! A tick is published under the key `schedule:{name}:{tick}`, and only then the schedule moves on. Whoever does it again,
//! after a crash in between or on another node, is answered with the job that is there: the key decides, and a tick has
//! one job.
//!
//! Ticks that were missed, because no server ran or the queue was gone, are not made up for one by one. The latest of them is
//! published, and the schedule goes on from there: nobody wants a night's worth of reports at nine in the morning.

use std::collections::HashMap;
use std::sync::Arc;

use semel_core::key::Key;
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Publish};
use semel_core::records::ScheduleRecord;
use semel_core::refusal::Refusal;
use semel_core::time::{Millis, Timestamp};
use semel_core::violation::Violations;
use semel_store::Command;
use semel_store::group_commit::CommitError;

use super::calendar::{Calendar, in_words};
use super::role::{Next, Role, Trouble};
use crate::service::Service;

/// Longest wait before the schedules are read again. A change is told; one that was made at another node and not heard may
/// tick this much late, once.
const LOOK_AGAIN: Millis = Millis::from_secs(15);

/// The wait after a tick that was refused, as by a queue that is not there. It is tried again, because a person may mend it.
const REFUSED_PAUSE: Millis = Millis::from_secs(60);

/// How far a schedule may stand ahead of its own calendar before it is put back. It comes to stand ahead when a server ran
/// with a clock that was wrong. A little is waited out, so that no tick is published twice; ten years are not.
const AHEAD_MAX: Millis = Millis::from_days(1);

/// Publishes the ticks of schedules.
pub(super) struct Schedules {
    service: Arc<Service>,
    /// Schedules that were refused, and when to try again.
    refused: HashMap<String, Timestamp>,
}

/// What is to be done about a schedule.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing before this time.
    Wait(Timestamp),
    /// Publish a tick, then move on.
    Publish { tick: Timestamp, next: Timestamp },
    /// The clock that brought it here was wrong: stand here instead.
    PutBack(Timestamp),
}

fn step(calendar: &Calendar, next_at: Timestamp, now: Timestamp) -> Result<Step, Violations> {
    if next_at <= now {
        let tick = calendar.latest(now).map_or(next_at, |latest| latest.max(next_at));
        // From the tick, not from now: whatever the clock does, the same tick is never the next one too.
        return Ok(Step::Publish { tick, next: calendar.after(tick)? });
    }
    if next_at.since(now) > AHEAD_MAX {
        let expected = calendar.after(now)?;
        if next_at.since(expected) > AHEAD_MAX {
            return Ok(Step::PutBack(expected));
        }
    }
    Ok(Step::Wait(next_at))
}

/// What a schedule publishes at a tick.
pub(crate) fn job_of(schedule: &ScheduleRecord, tick: Timestamp) -> Result<Publish, Violations> {
    let payload = Payload::from_json(schedule.payload.clone())?;
    let key = Key::try_from(format!("schedule:{}:{}", schedule.name, in_words(tick)))?;
    let mut draft = Draft::new(schedule.queue.clone(), payload).with_key(key);
    draft.publisher = Some(format!("schedule:{}", schedule.name));
    draft.check()
}

impl Schedules {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service, refused: HashMap::new() }
    }

    /// Does what is due for one schedule, and says when to look at it again.
    async fn tend(&mut self, schedule: &ScheduleRecord, now: Timestamp) -> Result<Timestamp, Trouble> {
        if let Some(again) = self.refused.get(&schedule.name).filter(|again| **again > now) {
            return Ok(*again);
        }
        self.refused.remove(&schedule.name);
        match self.take_step(schedule, now).await {
            Err(CommitError::Refused(refusal)) => {
                tracing::warn!(schedule = schedule.name, queue = %schedule.queue, error = %refusal,
                    "a tick could not be published; it is tried again");
                let again = now.plus(REFUSED_PAUSE);
                self.refused.insert(schedule.name.clone(), again);
                Ok(again)
            }
            outcome => Ok(outcome?),
        }
    }

    async fn take_step(&self, schedule: &ScheduleRecord, now: Timestamp) -> Result<Timestamp, CommitError> {
        let calendar = Calendar::parse(&schedule.cron, &schedule.zone).map_err(Refusal::from)?;
        match step(&calendar, schedule.next_at, now).map_err(Refusal::from)? {
            Step::Wait(until) => Ok(until),
            Step::Publish { tick, next } => {
                self.publish(schedule, tick).await?;
                self.move_on(schedule, next).await
            }
            Step::PutBack(to) => {
                tracing::warn!(
                    schedule = schedule.name,
                    from = in_words(schedule.next_at),
                    to = in_words(to),
                    "a schedule stood in the far future and was put back: the clock has been wrong"
                );
                self.move_on(schedule, to).await
            }
        }
    }

    async fn publish(&self, schedule: &ScheduleRecord, tick: Timestamp) -> Result<(), CommitError> {
        if tick > schedule.next_at {
            tracing::warn!(
                schedule = schedule.name,
                from = in_words(schedule.next_at),
                latest = in_words(tick),
                "ticks were missed; only the latest is published"
            );
        }
        match self.service.commit.publish(job_of(schedule, tick).map_err(Refusal::from)?).await {
            // The tick was published before, with the payload the schedule had then.
            Ok(_) | Err(CommitError::Refused(Refusal::KeyCollision { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Moves a schedule on. If it was changed or taken away meanwhile, what it is now stands.
    async fn move_on(&self, schedule: &ScheduleRecord, to: Timestamp) -> Result<Timestamp, CommitError> {
        let name = schedule.name.clone();
        let advance = Command::AdvanceSchedule { name, from: schedule.next_at, to };
        match self.service.commit.submit(advance).await {
            Ok(_) | Err(CommitError::Refused(Refusal::Outrun { .. } | Refusal::RecordNotFound { .. })) => {
                Ok(to)
            }
            Err(error) => Err(error),
        }
    }
}

impl Role for Schedules {
    const NAME: &'static str = "schedules";

    fn is_for_all_nodes(&self) -> bool {
        true
    }

    async fn run_once(&mut self) -> Result<Next, Trouble> {
        let now = self.service.store.now();
        let schedules = self.service.store.schedules().await?;
        self.refused.retain(|name, _| schedules.iter().any(|schedule| schedule.name == *name));
        let mut next = now.plus(LOOK_AGAIN);
        for schedule in &schedules {
            next = next.min(self.tend(schedule, now).await?);
        }
        Ok(Next::AtOrTold(next))
    }
}

#[cfg(test)]
mod tests {
    use semel_core::queue::{OnCollision, QueueConfig};
    use semel_store::JobQuery;

    use super::super::stage::{START, Stage, name};
    use super::*;

    const MINUTE: Millis = Millis::from_secs(60);

    fn record(cron: &str, next_at: Timestamp) -> ScheduleRecord {
        ScheduleRecord {
            name: "report".into(),
            queue: name("q"),
            cron: cron.into(),
            zone: "UTC".into(),
            payload: r#"{"kind":"report"}"#.into(),
            next_at,
        }
    }

    async fn keys(stage: &Stage) -> Vec<String> {
        let page = stage.service.store.jobs(JobQuery::default()).await.unwrap();
        page.items.iter().rev().map(|job| job.spec.key.as_ref().unwrap().to_string()).collect()
    }

    async fn next_at(stage: &Stage) -> Timestamp {
        stage.service.store.schedules().await.unwrap()[0].next_at
    }

    async fn stage_with(schedule: ScheduleRecord) -> (Stage, Schedules) {
        let stage = Stage::new().await;
        stage.queue("q", QueueConfig::default()).await;
        stage.submit(Command::PutSchedule(Box::new(schedule))).await;
        let role = Schedules::new(stage.service.clone());
        (stage, role)
    }

    #[tokio::test]
    async fn each_tick_is_published_once_when_it_is_due() {
        let (stage, mut role) = stage_with(record("* * * * *", START.plus(MINUTE))).await;
        assert_eq!(role.run_once().await.unwrap(), Next::AtOrTold(START.plus(LOOK_AGAIN)));
        assert_eq!(keys(&stage).await, [""; 0]);
        for _ in 0..2 {
            stage.alarm.advance(MINUTE);
            role.run_once().await.unwrap();
            role.run_once().await.unwrap();
        }
        let expected = ["schedule:report:2026-11-15T12:01:00Z", "schedule:report:2026-11-15T12:02:00Z"];
        assert_eq!(keys(&stage).await, expected);
        assert_eq!(next_at(&stage).await, START.plus(MINUTE.times(3)));
    }

    #[tokio::test]
    async fn a_tick_that_was_published_but_not_moved_on_from_has_one_job() {
        let (stage, mut role) = stage_with(record("* * * * *", START)).await;
        stage.queue("q", QueueConfig { on_collision: OnCollision::Reject, ..QueueConfig::default() }).await;
        role.run_once().await.unwrap();
        // As after a crash between the two, and with another payload besides.
        let again = ScheduleRecord { payload: "2".into(), ..record("* * * * *", START) };
        stage.submit(Command::PutSchedule(Box::new(again))).await;
        role.run_once().await.unwrap();
        assert_eq!(keys(&stage).await, ["schedule:report:2026-11-15T12:00:00Z"]);
        assert_eq!(next_at(&stage).await, START.plus(MINUTE));
    }

    #[tokio::test]
    async fn of_the_missed_ticks_only_the_latest_is_published() {
        let (stage, mut role) = stage_with(record("0 * * * *", START)).await;
        stage.alarm.advance(Millis::from_hours(30).plus(MINUTE));
        role.run_once().await.unwrap();
        role.run_once().await.unwrap();
        assert_eq!(keys(&stage).await, ["schedule:report:2026-11-16T18:00:00Z"]);
        assert_eq!(next_at(&stage).await, START.plus(Millis::from_hours(31)));
    }

    #[tokio::test]
    async fn a_refused_tick_waits_for_its_queue_and_does_not_hold_up_others() {
        let (stage, mut role) = stage_with(record("* * * * *", START)).await;
        stage.queue("gone", QueueConfig::default()).await;
        let lost = ScheduleRecord { name: "lost".into(), queue: name("gone"), ..record("* * * * *", START) };
        stage.submit(Command::PutSchedule(Box::new(lost))).await;
        stage.submit(Command::DeleteQueue(name("gone"))).await;
        role.run_once().await.unwrap();
        assert_eq!(keys(&stage).await, ["schedule:report:2026-11-15T12:00:00Z"]);
        stage.queue("gone", QueueConfig::default()).await;
        role.run_once().await.unwrap();
        assert_eq!(keys(&stage).await.len(), 1, "it is not tried again before the pause is over");
        stage.alarm.advance(REFUSED_PAUSE);
        role.run_once().await.unwrap();
        assert!(keys(&stage).await.contains(&"schedule:lost:2026-11-15T12:01:00Z".to_owned()));
    }

    #[tokio::test]
    async fn a_schedule_in_the_far_future_is_put_back_and_one_a_little_ahead_waits() {
        let far = START.plus(Millis::from_days(3650));
        let (stage, mut role) = stage_with(record("0 * * * *", far)).await;
        role.run_once().await.unwrap();
        assert_eq!(next_at(&stage).await, START.plus(Millis::from_hours(1)));
        let ahead = START.plus(AHEAD_MAX).plus(Millis::from_hours(1));
        stage.submit(Command::PutSchedule(Box::new(record("0 * * * *", ahead)))).await;
        role.run_once().await.unwrap();
        assert_eq!(next_at(&stage).await, ahead);
        assert_eq!(keys(&stage).await, [""; 0]);
    }

    #[test]
    fn a_rare_schedule_is_not_taken_for_one_in_the_far_future() {
        let calendar = Calendar::parse("0 0 29 2 *", "UTC").unwrap();
        let next = calendar.after(START).unwrap();
        assert_eq!(step(&calendar, next, START), Ok(Step::Wait(next)));
    }
}
