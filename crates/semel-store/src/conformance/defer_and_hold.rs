//! Backpressure: a job that is deferred burns no attempt, and a queue that holds lets one probe out first.

use semel_core::job::AttemptStatus;
use semel_core::lease::Delivery;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::{DeferScope, Outcome};
use semel_core::settle::RETRY_AFTER_DEFAULT;
use semel_core::{JobId, Millis};

use super::kit::Kit;
use super::make::{LEASE, deferred, done, failed, ms, plain, rejected, secs, settle, with_attempts};
use crate::command::Command;

const WAIT: Millis = secs(20);

/// A queue of four jobs whose first delivery was pushed back for [`WAIT`]. Returns the jobs in ready order after the wait.
async fn held(kit: &Kit) -> (QueueName, Vec<JobId>) {
    let queue = kit.queue("orders").await;
    let mut ids = kit.new_jobs(&queue, 4).await;
    let first = kit.take(&queue).await;
    kit.settle(&first, deferred(WAIT, DeferScope::Queue)).await;
    // The deferred job is due after the others.
    ids.rotate_left(1);
    (queue, ids)
}

/// The one probe that a held queue must let out now.
async fn probe(kit: &Kit, queue: &QueueName) -> Delivery {
    let mut out = kit.lease(queue, 10).await;
    assert_eq!(out.len(), 1, "exactly one probe goes out");
    assert!(out[0].probe, "and it is marked as the probe");
    kit.expect_nothing(queue, "nothing follows until the probe has ended").await;
    out.remove(0)
}

pub(super) async fn a_deferred_job_burns_no_attempt(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(with_attempts(plain(&queue), 1)).await;
    for round in 0..20 {
        let delivery = kit.take(&queue).await;
        assert_eq!((delivery.attempt, delivery.deferrals), (1, round));
        let (state, due) = kit.settle(&delivery, deferred(WAIT, DeferScope::Job)).await;
        assert_eq!((state, due), (State::Pending, Some(kit.now().plus(WAIT))));
        kit.advance(WAIT);
    }
    kit.crash().await;
    let progress = kit.job(id).await.progress;
    assert_eq!((progress.attempts, progress.deferrals), (0, 20), "a deferral is never an attempt");
    let delivery = kit.take(&queue).await;
    kit.ack(&delivery).await;
}

pub(super) async fn a_deferral_is_told_in_the_history(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let busy = Outcome::Backpressure {
        retry_after: Some(WAIT),
        scope: Some(DeferScope::Job),
        reason: Some("the bank is closed".into()),
    };
    kit.settle(&delivery, busy).await;
    let history = kit.job(delivery.id).await.progress.history;
    assert_eq!((history.len(), history[0].status, history[0].number), (1, AttemptStatus::Deferred, 1));
    assert_eq!(history[0].error.as_deref(), Some("the bank is closed"));
}

pub(super) async fn a_deferred_job_comes_back_at_its_time_and_not_before(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&delivery, deferred(WAIT, DeferScope::Job)).await;
    kit.advance(WAIT.minus(ms(1)));
    kit.expect_nothing(&queue, "it is a millisecond early").await;
    kit.advance(ms(1));
    assert_eq!(kit.take(&queue).await.id, delivery.id);
}

pub(super) async fn a_job_that_waits_alone_holds_nobody_up(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ids = kit.new_jobs(&queue, 3).await;
    let first = kit.take(&queue).await;
    kit.settle(&first, deferred(WAIT, DeferScope::Job)).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, ids[1..], "the others go on");
}

pub(super) async fn backpressure_holds_the_queue_until_its_time(kit: &mut Kit) {
    let (queue, ids) = held(kit).await;
    kit.expect_nothing(&queue, "the queue holds").await;
    kit.new_job(plain(&queue)).await;
    kit.advance(WAIT.minus(ms(1)));
    kit.expect_nothing(&queue, "new jobs wait as well, to the last millisecond").await;
    assert!(
        kit.next_due(&queue).await.is_some_and(|due| due <= kit.now().plus(ms(1))),
        "next_due is not late"
    );
    kit.advance(ms(1));
    assert_eq!(probe(kit, &queue).await.id, ids[0], "then the first in ready order is the probe");
}

pub(super) async fn a_probe_that_works_opens_the_queue(kit: &mut Kit) {
    let (queue, ids) = held(kit).await;
    kit.advance(WAIT);
    let delivery = probe(kit, &queue).await;
    kit.ack(&delivery).await;
    let rest = kit.lease(&queue, 10).await;
    assert_eq!(rest.iter().map(|d| d.id).collect::<Vec<_>>(), ids[1..]);
    assert!(rest.iter().all(|d| !d.probe), "an open queue sends no probes");
}

pub(super) async fn a_probe_that_was_received_opens_the_queue(kit: &mut Kit) {
    let (queue, ids) = held(kit).await;
    kit.advance(WAIT);
    let delivery = probe(kit, &queue).await;
    kit.settle(&delivery, Outcome::Received).await;
    assert_eq!(
        kit.lease_ids(&queue, 10).await,
        ids[1..],
        "the workers take jobs again: no need to wait for the ack"
    );
}

pub(super) async fn a_probe_that_is_pushed_back_holds_again(kit: &mut Kit) {
    let (queue, _) = held(kit).await;
    kit.advance(WAIT);
    let delivery = probe(kit, &queue).await;
    kit.settle(&delivery, deferred(secs(50), DeferScope::Queue)).await;
    kit.advance(secs(50).minus(ms(1)));
    kit.expect_nothing(&queue, "the new wait counts").await;
    kit.advance(ms(1));
    let delivery = probe(kit, &queue).await;
    kit.ack(&delivery).await;
    assert_eq!(kit.lease(&queue, 10).await.len(), 3);
}

pub(super) async fn a_probe_that_tells_nothing_is_followed_by_another(kit: &mut Kit) {
    let (queue, ids) = held(kit).await;
    kit.advance(WAIT);
    let rejected_probe = probe(kit, &queue).await;
    kit.settle(&rejected_probe, rejected("bad job")).await;
    let failed_probe = probe(kit, &queue).await;
    kit.settle(&failed_probe, failed("boom")).await;
    let cancelled_probe = probe(kit, &queue).await;
    kit.tell(Command::Cancel(cancelled_probe.id)).await;
    let silent_probe = probe(kit, &queue).await;
    assert_eq!([rejected_probe.id, failed_probe.id, cancelled_probe.id, silent_probe.id], ids[..]);
    kit.advance(LEASE);
    assert_eq!(kit.rescue().await, [silent_probe.id]);
    let last = probe(kit, &queue).await;
    assert_eq!(last.id, failed_probe.id, "the retry is due by now");
    kit.ack(&last).await;
}

pub(super) async fn the_longest_wait_asked_for_wins(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_jobs(&queue, 4).await;
    let out = kit.lease(&queue, 3).await;
    for (delivery, wait) in out.iter().zip([10, 40, 5]) {
        kit.settle(delivery, deferred(secs(wait), DeferScope::Queue)).await;
    }
    kit.advance(secs(40).minus(ms(1)));
    kit.expect_nothing(&queue, "forty seconds were asked for").await;
    kit.advance(ms(1));
    probe(kit, &queue).await;
}

pub(super) async fn deliveries_from_before_the_hold_do_not_end_it(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_jobs(&queue, 4).await;
    let out = kit.lease(&queue, 2).await;
    kit.settle(&out[0], deferred(WAIT, DeferScope::Queue)).await;
    kit.ack(&out[1]).await;
    kit.expect_nothing(&queue, "that one was sent before the workers asked for time").await;
}

pub(super) async fn the_queue_says_what_waits_and_how_long_when_the_worker_does_not(kit: &mut Kit) {
    let unsaid = || Outcome::Backpressure { retry_after: None, scope: None, reason: None };
    let alone = kit.queue_with("alone", |config| config.defer_scope = DeferScope::Job).await;
    let whole = kit.queue_with("whole", |config| config.defer_scope = DeferScope::Queue).await;
    for (queue, others) in [(&alone, 1), (&whole, 0)] {
        kit.new_jobs(queue, 2).await;
        let delivery = kit.take(queue).await;
        let (_, due) = kit.settle(&delivery, unsaid()).await;
        assert_eq!(due, Some(kit.now().plus(RETRY_AFTER_DEFAULT)));
        assert_eq!(kit.lease(queue, 10).await.len(), others, "queue {queue}");
    }
}

pub(super) async fn a_hold_is_one_queues_own(kit: &mut Kit) {
    let (queue, _) = held(kit).await;
    let other = kit.queue("mails").await;
    kit.new_jobs(&other, 2).await;
    assert_eq!(kit.lease(&other, 10).await.len(), 2);
    kit.expect_nothing(&queue, "this one holds").await;
}

pub(super) async fn a_hold_survives_a_crash(kit: &mut Kit) {
    let (queue, _) = held(kit).await;
    kit.crash().await;
    kit.advance(WAIT.minus(ms(1)));
    kit.expect_nothing(&queue, "the workers asked for time; a restart of the queue gives them none").await;
    kit.advance(ms(1));
    probe(kit, &queue).await;
}

pub(super) async fn a_crash_does_not_lose_the_probe(kit: &mut Kit) {
    let (queue, _) = held(kit).await;
    kit.advance(WAIT);
    let lost = probe(kit, &queue).await;
    kit.crash().await;
    let again = probe(kit, &queue).await;
    assert_eq!(again.id, lost.id, "its lease died with the process, so another probe goes out");
    let refusal = kit.refused(settle(lost.id, Some(lost.token), done())).await;
    assert_eq!(refusal.code(), "stale_lease", "the dead probe opens nothing");
    kit.ack(&again).await;
    assert_eq!(kit.lease(&queue, 10).await.len(), 3);
}

pub(super) async fn a_held_queue_still_takes_everything_else(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let other = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&delivery, deferred(WAIT, DeferScope::Queue)).await;
    kit.ack(&other).await;
    let id = kit.cancelled(plain(&queue)).await;
    assert_eq!(kit.state(id).await, State::Cancelled, "publish, settle and cancel go on");
}
