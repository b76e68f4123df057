//! The acts of the tour that need no crash. They build on each other: the job of one is met again in the next.

use semel_core::lease::Delivery;
use semel_core::lifecycle::State;
use semel_core::outcome::Outcome;
use semel_core::publish::Published;
use semel_core::refusal::Refusal;
use semel_core::time::{Millis, Timestamp};
use semel_store::{Answer, Command, Reply};

use super::stage::{ATTEMPTS, QUEUE, Stage};
use super::telling::Telling;
use crate::failure::Failure;

const KEY: &str = "order-9482";
const PAYLOAD: &str = r#"{"order":9482,"amount":1999,"currency":"EUR"}"#;
const OTHER_PAYLOAD: &str = r#"{"order":9482,"amount":2999,"currency":"EUR"}"#;
const DOOMED: &str = "order-9483";

/// A publish whose answer was lost is sent again.
pub(crate) fn publish_twice(telling: &mut Telling, stage: &Stage) -> Result<(), Failure> {
    telling.act("A publish that is sent twice makes one job")?;
    let first = stage.publish(KEY, PAYLOAD)?;
    telling.call(format!("publish to {QUEUE}, key {KEY}: {PAYLOAD}"), show_publish(&first))?;
    let second = stage.publish(KEY, PAYLOAD)?;
    telling.call("publish the same again, as after a time-out", show_publish(&second))?;
    let held =
        matches!((&first, &second), (Ok(a), Ok(b)) if a.id == b.id && !a.deduplicated && b.deduplicated);
    telling.promise(held, "the second publish returned the first job, and said so")
}

/// The same key comes with another payload.
pub(crate) fn collide(telling: &mut Telling, stage: &Stage) -> Result<(), Failure> {
    telling.act("The same key with another payload is a collision, not a duplicate")?;
    let answer = stage.publish(KEY, OTHER_PAYLOAD)?;
    telling.call(format!("publish, key {KEY}: {OTHER_PAYLOAD}"), show_publish(&answer))?;
    let held = matches!(&answer, Err(Refusal::KeyCollision { pointers, .. }) if pointers == &["/amount"]);
    telling.promise(held, "it was refused, and the answer points at what differs")
}

/// A worker falls silent, another takes over, the first comes back.
pub(crate) fn lose_a_lease(telling: &mut Telling, stage: &Stage) -> Result<(), Failure> {
    telling.act("A worker that lost its lease cannot settle")?;
    let first = leased(telling, stage, "worker A leases")?;
    let silence = first.deadline.since(stage.now());
    stage.advance(silence);
    let rescued = stage.apply(Command::Rescue { limit: 10 })?;
    telling.call(
        format!("worker A is silent for {silence}; upkeep looks for leases that ran out"),
        show(&rescued, stage.now()),
    )?;
    let wait = wait_until_due(telling, stage, &first)?;
    let second = leased(telling, stage, &format!("{wait} later worker B leases"))?;
    let late = stage.settle(first.id, first.token, done())?;
    telling.call("worker A is back and acks, with its old token", show(&late, stage.now()))?;
    let ack = stage.settle(second.id, second.token, done())?;
    telling.call("worker B acks", show(&ack, stage.now()))?;
    let again = stage.settle(second.id, second.token, done())?;
    telling.call("worker B acks again, as after a time-out", show(&again, stage.now()))?;
    telling.promise(
        second.id == first.id && second.token > first.token,
        "B got the same job under a greater token",
    )?;
    telling.promise(matches!(late, Err(Refusal::StaleLease(_))), "the stale token changed nothing")?;
    telling.promise(
        completed(&ack, false) && completed(&again, true),
        "one ack took effect; its repeat was recognised",
    )
}

/// A job fails as often as it may.
pub(crate) fn fail_until_dead(telling: &mut Telling, stage: &Stage) -> Result<(), Failure> {
    telling.act("A failed attempt is retried later and later, and never lost")?;
    let published = stage.publish(DOOMED, r#"{"order":9483}"#)?;
    telling.call(format!("publish to {QUEUE}, key {DOOMED}"), show_publish(&published))?;
    let mut waits = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let when = waits.last().map_or(String::new(), |wait| format!("{wait} later "));
        let delivery = leased(telling, stage, &format!("{when}a worker leases"))?;
        let failed = Outcome::Failed { error: "card service is down".into() };
        let nack = stage.settle(delivery.id, delivery.token, failed)?;
        telling.call(format!("and fails, attempt {attempt} of {ATTEMPTS}"), show(&nack, stage.now()))?;
        if attempt < ATTEMPTS {
            waits.push(wait_until_due(telling, stage, &delivery)?);
        }
    }
    let growing = waits.windows(2).all(|pair| pair[0] < pair[1]);
    telling.promise(
        growing && !waits.contains(&Millis::ZERO),
        "each wait was longer than the one before, and kept",
    )?;
    let job = stage.job(published?.id)?;
    let held = job.progress.state == State::Dead && job.progress.history.len() == ATTEMPTS as usize;
    telling.promise(held, "after its last attempt it is a dead letter, payload and every error kept")
}

/// The dead letter is given another life.
pub(crate) fn replay(telling: &mut Telling, stage: &Stage) -> Result<(), Failure> {
    telling.act("A dead letter is replayed under its own id and key")?;
    let dead = stage.publish(DOOMED, r#"{"order":9483}"#)??;
    telling.call(format!("publish key {DOOMED} once more"), show_publish(&Ok(dead.clone())))?;
    let replayed = stage.apply(Command::Replay(dead.id))?;
    telling.call(format!("replay {}", dead.id), show(&replayed, stage.now()))?;
    let delivery = leased(telling, stage, "a worker leases")?;
    let ack = stage.settle(delivery.id, delivery.token, done())?;
    telling.call("and acks", show(&ack, stage.now()))?;
    let job = stage.job(dead.id)?;
    let kept = job.progress.history.len() == ATTEMPTS as usize + 1;
    telling.promise(delivery.id == dead.id && completed(&ack, false), "the same job, completed at last")?;
    telling.promise(kept, format!("its history tells of all {} attempts", job.progress.history.len()))
}

/// Leases the job that must be ready, and shows it.
fn leased(telling: &mut Telling, stage: &Stage, who: &str) -> Result<Delivery, Failure> {
    let delivery =
        stage.lease()?.ok_or_else(|| Failure::Broken("no job was ready, though one was due".into()))?;
    let for_ = delivery.deadline.since(stage.now());
    telling.call(
        who,
        format!("{}, attempt {}, token {}, for {for_}", delivery.id, delivery.attempt, delivery.token),
    )?;
    Ok(delivery)
}

/// Asks for the job before it is due, which must yield nothing, and lets the time pass. Returns how long that was.
fn wait_until_due(telling: &mut Telling, stage: &Stage, delivery: &Delivery) -> Result<Millis, Failure> {
    let wait = stage.job(delivery.id)?.progress.due.since(stage.now());
    let early = stage.lease()?;
    telling.call(
        "a lease before it is due",
        early.as_ref().map_or("nothing is ready".into(), |d| d.id.to_string()),
    )?;
    if early.is_some() {
        telling.promise(false, "nothing is delivered before it is due")?;
    }
    stage.advance(wait);
    Ok(wait)
}

fn done() -> Outcome {
    Outcome::Done { result: None, effect: None }
}

fn completed(answer: &Answer, expect_repeated: bool) -> bool {
    matches!(answer, Ok(Reply::Settled { state: State::Completed, repeated, .. }) if *repeated == expect_repeated)
}

fn show_publish(answer: &Result<Published, Refusal>) -> String {
    match answer {
        Ok(job) if job.deduplicated => format!("{}, deduplicated, state {}", job.id, job.state.name()),
        Ok(job) => format!("{}, created, on disk", job.id),
        Err(refusal) => show_refusal(refusal),
    }
}

fn show_refusal(refusal: &Refusal) -> String {
    format!("refused ({}): {refusal}", refusal.code())
}

/// An answer in words; times are told from `now`.
fn show(answer: &Answer, now: Timestamp) -> String {
    match answer {
        Ok(Reply::Settled { state, due: Some(due), .. }) => {
            format!("{}, due in {}", state.name(), due.since(now))
        }
        Ok(Reply::Settled { state, repeated: true, .. }) => format!("{}, as answered before", state.name()),
        Ok(Reply::Settled { state, .. }) => state.name().into(),
        Ok(Reply::Rescued { jobs, .. }) => format!(
            "ended {}: {}",
            jobs.len(),
            jobs.iter().map(|job| job.id.to_string()).collect::<Vec<_>>().join(", ")
        ),
        Ok(Reply::Done) => "done".into(),
        Ok(other) => format!("{other:?}"),
        Err(refusal) => show_refusal(refusal),
    }
}
