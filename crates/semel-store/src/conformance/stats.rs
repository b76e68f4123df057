//! Counters: what they say is what a count of the jobs would give.

use semel_core::lifecycle::State;
use semel_core::outcome::{DeferScope, Outcome};
use semel_core::publish::Draft;

use super::kit::Kit;
use super::make::{LEASE, RETRY_WAIT, deferred, grouped, keyed, plain, secs};
use super::snapshot::Snapshot;
use crate::command::Command;
use crate::stats::QueueStats;

pub(super) async fn every_state_is_counted(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.publish_and_take(plain(&queue)).await;
    let received = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&received, Outcome::Received).await;
    for _ in 0..2 {
        kit.completed(plain(&queue)).await;
    }
    for _ in 0..3 {
        kit.dead(plain(&queue)).await;
    }
    for _ in 0..4 {
        kit.cancelled(plain(&queue)).await;
    }
    kit.new_jobs(&queue, 5).await;
    let stats = kit.stats(&queue).await;
    let counts = State::ALL.map(|state| stats.count(state));
    assert_eq!(counts, [5, 1, 1, 2, 3, 4], "pending, processing, awaiting ack, completed, dead, cancelled");
    assert_eq!(stats.unfinished(), 7);
}

pub(super) async fn every_queue_is_listed_by_name(kit: &mut Kit) {
    assert_eq!(kit.store().stats().await.expect("counts").queues, []);
    for name in ["b", "a:1", "a", "C", "0"] {
        kit.queue(name).await;
    }
    let stats = kit.store().stats().await.expect("counts");
    let names: Vec<_> = stats.queues.iter().map(|entry| entry.queue.as_str()).collect();
    assert_eq!(names, ["0", "C", "a", "a:1", "b"]);
    assert!(
        stats.queues.iter().all(|entry| *entry == QueueStats::empty(entry.queue.clone())),
        "all are empty"
    );
}

pub(super) async fn a_queue_counts_its_own_jobs(kit: &mut Kit) {
    let (orders, mails) = (kit.queue("orders").await, kit.queue("mails").await);
    kit.new_jobs(&orders, 2).await;
    kit.completed(plain(&mails)).await;
    assert_eq!((kit.stats(&orders).await.pending, kit.stats(&orders).await.completed), (2, 0));
    assert_eq!((kit.stats(&mails).await.pending, kit.stats(&mails).await.completed), (0, 1));
}

pub(super) async fn the_oldest_ready_job_tells_how_far_behind_a_queue_is(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    assert_eq!(kit.stats(&queue).await.oldest_ready, None, "nothing is ready");
    kit.new_job(Draft { delay: Some(secs(60)), ..plain(&queue) }).await;
    assert_eq!(kit.stats(&queue).await.oldest_ready, None, "a job that is not due is not ready");
    let first = kit.now();
    kit.new_job(plain(&queue)).await;
    kit.advance(secs(5));
    let second = kit.now();
    kit.new_job(Draft { priority: 9, ..plain(&queue) }).await;
    assert_eq!(kit.stats(&queue).await.oldest_ready, Some(first), "by due time, not by priority");
    let urgent = kit.take(&queue).await;
    let oldest = kit.take(&queue).await;
    assert_eq!(kit.stats(&queue).await.oldest_ready, None, "both are with workers");
    kit.settle(&urgent, deferred(secs(0), DeferScope::Job)).await;
    assert_eq!(kit.stats(&queue).await.oldest_ready, Some(second), "a deferral of nothing is due at once");
    kit.ack(&oldest).await;
    kit.advance(secs(55));
    let again = kit.take(&queue).await;
    kit.ack(&again).await;
    assert_eq!(
        kit.stats(&queue).await.oldest_ready,
        Some(first.plus(secs(60))),
        "the delayed job's time has come"
    );
}

pub(super) async fn duplicates_and_refusals_do_not_count(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.payload_limit = 20).await;
    kit.new_job(keyed(&queue, "order-1")).await;
    for _ in 0..3 {
        kit.publish(keyed(&queue, "order-1")).await;
    }
    let big = super::make::json(&format!("\"{}\"", "x".repeat(50)));
    kit.refused(super::make::publish(Draft { payload: big, ..plain(&queue) })).await;
    assert_eq!(kit.stats(&queue).await.pending, 1);
}

pub(super) async fn a_deleted_queue_has_no_counters(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.completed(plain(&queue)).await;
    kit.tell(Command::DeleteQueue(queue)).await;
    assert_eq!(kit.store().stats().await.expect("counts").queues, []);
}

/// A busy hour: every kind of command, retries, rescues, deferrals, groups, prunes. The counters are checked at every turn.
pub(super) async fn counters_are_right_at_every_turn_of_a_busy_store(kit: &mut Kit) {
    let busy = |config: &mut semel_core::QueueConfig| {
        config.group_concurrency = Some(2);
        config.retention.completed = secs(60);
        config.retention.dead = secs(90);
        config.window = secs(120);
    };
    let queues = [kit.queue_with("orders", busy).await, kit.queue_with("mails", busy).await];
    for turn in 0..60_u32 {
        let queue = &queues[turn as usize % 2];
        kit.new_jobs(queue, 2).await;
        kit.publish(keyed(queue, &format!("k{}", turn % 7))).await;
        let delayed = Draft { delay: Some(secs(7)), ..grouped(queue, "g") };
        let id = kit.new_job(delayed).await;
        for (n, delivery) in kit.lease(queue, 4).await.iter().enumerate() {
            match (turn as usize + n) % 6 {
                0 => kit.reject(delivery).await,
                1 => drop(kit.settle(delivery, super::make::failed("boom")).await),
                2 => drop(kit.settle(delivery, deferred(secs(3), DeferScope::Job)).await),
                3 => drop(kit.tell(Command::Cancel(delivery.id)).await),
                4 => {}
                _ => kit.ack(delivery).await,
            }
        }
        match turn % 5 {
            0 => drop(kit.tell(Command::Cancel(id)).await),
            1 => drop(kit.rescue().await),
            2 => drop(kit.prune().await),
            3 => replay_one(kit).await,
            _ => kit.advance(LEASE),
        }
        if turn % 20 == 19 {
            kit.crash().await;
        }
        kit.advance(RETRY_WAIT);
        Snapshot::of(kit).await.assert_counted(&format!("turn {turn}"));
    }
}

async fn replay_one(kit: &Kit) {
    let dead = kit.list(crate::JobQuery { state: Some(State::Dead), ..crate::JobQuery::default() }).await;
    if let Some(job) = dead.iter().find(|job| job.spec.payload.is_some()) {
        kit.tell(Command::Replay(job.id)).await;
    }
}

pub(super) async fn counters_are_right_when_everything_has_drained(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.group_concurrency = Some(1)).await;
    for n in 0..30 {
        kit.new_job(if n % 3 == 0 { grouped(&queue, "g") } else { plain(&queue) }).await;
    }
    for round in 0..200 {
        let deliveries = kit.lease(&queue, 3).await;
        for (n, delivery) in deliveries.iter().enumerate() {
            if (round + n) % 3 == 0 {
                kit.settle(delivery, super::make::failed("boom")).await;
            } else {
                kit.ack(delivery).await;
            }
        }
        kit.advance(RETRY_WAIT);
    }
    let stats = kit.stats(&queue).await;
    assert_eq!((stats.unfinished(), stats.oldest_ready), (0, None), "all have ended");
    assert_eq!(stats.completed + stats.dead, 30, "each of them once");
}
