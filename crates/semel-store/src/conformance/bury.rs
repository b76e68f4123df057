//! Burials: a person or a rule puts an unfinished job among the dead letters, wherever it stands.

use semel_core::job::{Attempt, AttemptStatus};
use semel_core::lifecycle::State;
use semel_core::outcome::DeferScope;
use semel_core::publish::Draft;
use semel_core::refusal::Refusal;
use semel_core::settle::REASON_MAX;
use semel_core::{JobId, Outcome};

use super::kit::Kit;
use super::make::{
    RETRY_WAIT, deferred, done, extend, failed, grouped, keyed, plain, rejected, secs, settle, with_attempts,
};
use crate::command::{Command, Reply};
use crate::query::JobQuery;

fn bury(id: JobId) -> Command {
    Command::Bury { id, reason: "published 100 times".into() }
}

async fn buried(kit: &Kit, id: JobId) {
    assert_eq!(kit.tell(bury(id)).await, Reply::Done);
    assert_eq!(kit.state(id).await, State::Dead);
}

pub(super) async fn a_waiting_job_can_be_buried(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(keyed(&queue, "order-1")).await;
    kit.advance(secs(5));
    buried(kit, id).await;
    kit.crash().await;
    let progress = kit.job(id).await.progress;
    assert_eq!((progress.attempts, progress.finished_at), (0, Some(kit.now())), "it burns no attempt");
    let entry = Attempt {
        number: 0,
        status: AttemptStatus::Failed,
        error: Some("published 100 times".into()),
        status_code: None,
        at: kit.now(),
        duration: None,
        effect: None,
    };
    assert_eq!(progress.history, [entry], "the reason is kept");
    kit.expect_nothing(&queue, "a dead letter is not delivered").await;
    let dead = kit.list(JobQuery { state: Some(State::Dead), ..JobQuery::default() }).await;
    assert_eq!(dead.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id, "its key holds");
}

pub(super) async fn a_job_can_be_buried_wherever_it_waits(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let retrying = kit.publish_and_take(plain(&queue)).await;
    kit.fail(&retrying).await;
    let delayed = kit.new_job(Draft { delay: Some(secs(60)), ..plain(&queue) }).await;
    let urgent = kit.new_job(Draft { priority: 9, ..plain(&queue) }).await;
    for id in [retrying.id, delayed, urgent] {
        buried(kit, id).await;
    }
    kit.advance(secs(3600));
    kit.expect_nothing(&queue, "none of them goes out any more").await;
    assert_eq!((kit.next_due(&queue).await, kit.stats(&queue).await.dead), (None, 3));
}

pub(super) async fn a_buried_delivery_cannot_be_settled(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let taken = kit.publish_and_take(plain(&queue)).await;
    let received = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&received, Outcome::Received).await;
    kit.advance(secs(3));
    for delivery in [taken, received] {
        buried(kit, delivery.id).await;
        for outcome in [done(), failed("boom"), deferred(secs(1), DeferScope::Queue), Outcome::Received] {
            let refusal = kit.refused(settle(delivery.id, Some(delivery.token), outcome)).await;
            assert_eq!(refusal, Refusal::StaleLease(delivery.id));
        }
        let refusal = kit.refused(extend(delivery.id, Some(delivery.token), secs(60))).await;
        assert_eq!(refusal, Refusal::StaleLease(delivery.id));
        let progress = kit.job(delivery.id).await.progress;
        assert_eq!((progress.attempts, progress.history.len()), (0, 1));
        assert_eq!(progress.history[0].duration, Some(secs(3)), "how long the worker had it");
    }
    assert_eq!(kit.next_expiry().await, None, "the leases are void");
    kit.advance(secs(3600));
    assert_eq!(kit.rescue().await, []);
}

pub(super) async fn a_burial_burns_no_attempt(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(with_attempts(plain(&queue), 2)).await;
    kit.fail(&delivery).await;
    buried(kit, delivery.id).await;
    let progress = kit.job(delivery.id).await.progress;
    assert_eq!((progress.attempts, progress.history[1].number), (1, 1));
    assert_eq!(progress.last_error(), Some("published 100 times"));
    kit.tell(Command::Replay(delivery.id)).await;
    let again = kit.take(&queue).await;
    assert_eq!((again.id, again.attempt), (delivery.id, 1), "a replay gives it a new life");
}

pub(super) async fn what_has_ended_cannot_be_buried(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ended = [
        (kit.completed(plain(&queue)).await, State::Completed),
        (kit.dead(plain(&queue)).await, State::Dead),
        (kit.cancelled(plain(&queue)).await, State::Cancelled),
    ];
    for (id, state) in ended {
        let refusal = kit.refused(bury(id)).await;
        assert_eq!(refusal, Refusal::WrongState { id, state, action: "buried" });
    }
}

pub(super) async fn a_long_reason_is_cut(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(plain(&queue)).await;
    kit.tell(Command::Bury { id, reason: "ß".repeat(REASON_MAX + 1) }).await;
    assert_eq!(kit.job(id).await.progress.last_error(), Some("ß".repeat(REASON_MAX).as_str()));
}

pub(super) async fn a_burial_opens_the_next_of_its_group(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.group_concurrency = Some(1)).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(kit.new_job(grouped(&queue, "a")).await);
    }
    let first = kit.take(&queue).await;
    buried(kit, ids[1]).await;
    kit.expect_nothing(&queue, "the second had not been open, and the first still is").await;
    buried(kit, first.id).await;
    kit.crash().await;
    buried(kit, ids[2]).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[3]], "the third was open, and made room");
}

pub(super) async fn a_buried_delivery_frees_its_slot(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.concurrency = Some(1)).await;
    let ids = kit.new_jobs(&queue, 2).await;
    let first = kit.take(&queue).await;
    kit.expect_nothing(&queue, "one at a time").await;
    buried(kit, first.id).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[1]]);
}

pub(super) async fn a_buried_probe_is_followed_by_another(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_jobs(&queue, 3).await;
    let pushed_back = kit.take(&queue).await;
    kit.settle(&pushed_back, deferred(RETRY_WAIT, DeferScope::Queue)).await;
    kit.advance(RETRY_WAIT);
    let probe = kit.take(&queue).await;
    assert!(probe.probe);
    kit.expect_nothing(&queue, "one probe at a time").await;
    buried(kit, probe.id).await;
    let next = kit.take(&queue).await;
    assert!(next.probe, "the first told nothing about the workers");
    kit.ack(&next).await;
}

pub(super) async fn a_burial_can_share_a_batch_with_what_follows(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let id = delivery.id;
    let late = settle(id, Some(delivery.token), rejected("no"));
    let answers = kit.apply(vec![bury(id), late, bury(id), Command::Purge(id), bury(id)]).await;
    assert_eq!(answers[0], Ok(Reply::Done));
    assert_eq!(answers[1], Err(Refusal::StaleLease(id)));
    assert_eq!(answers[2], Err(Refusal::WrongState { id, state: State::Dead, action: "buried" }));
    assert_eq!(answers[3], Ok(Reply::Done));
    assert_eq!(answers[4], Err(Refusal::JobNotFound(id)));
}
