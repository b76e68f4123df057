//! Ready order: priority descending, then due time, then id.

use std::cmp::Reverse;

use semel_core::name::QueueName;
use semel_core::publish::Draft;
use semel_core::{JobId, Millis};

use super::kit::Kit;
use super::make::{RETRY_WAIT, plain, secs};

fn at(queue: &QueueName, priority: i64) -> Draft {
    Draft { priority, ..plain(queue) }
}

fn delayed(queue: &QueueName, wait: u64) -> Draft {
    Draft { delay: Some(secs(wait)), ..plain(queue) }
}

pub(super) async fn the_higher_priority_goes_first(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mut ids = Vec::new();
    for priority in [-100, -1, 0, 1, 100] {
        ids.push(kit.new_job(at(&queue, priority)).await);
    }
    ids.reverse();
    assert_eq!(kit.lease_ids(&queue, 10).await, ids);
}

pub(super) async fn priority_beats_age(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let old = kit.new_jobs(&queue, 3).await;
    kit.advance(secs(86_400));
    let urgent = kit.new_job(at(&queue, 1)).await;
    assert_eq!(kit.lease_ids(&queue, 2).await, [urgent, old[0]]);
    let low = kit.new_job(at(&queue, -1)).await;
    kit.advance(secs(86_400));
    let young = kit.new_job(plain(&queue)).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [old[1], old[2], young, low]);
}

pub(super) async fn among_equals_the_earlier_due_goes_first(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let late = kit.new_job(delayed(&queue, 9)).await;
    let early = kit.new_job(delayed(&queue, 3)).await;
    kit.advance(secs(6));
    let middle = kit.new_job(plain(&queue)).await;
    kit.advance(secs(6));
    let last = kit.new_job(plain(&queue)).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [early, middle, late, last], "by due time, not by id");
}

pub(super) async fn among_equals_of_one_time_the_lower_id_goes_first(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delayed_job = kit.new_job(delayed(&queue, 5)).await;
    kit.advance(secs(5));
    let plain_job = kit.new_job(plain(&queue)).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [delayed_job, plain_job], "both are due now");
}

pub(super) async fn a_retry_queues_up_by_its_retry_time(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let retried = kit.publish_and_take(plain(&queue)).await;
    kit.fail(&retried).await;
    kit.advance(RETRY_WAIT.minus(secs(1)));
    let before = kit.new_job(plain(&queue)).await;
    kit.advance(secs(2));
    let after = kit.new_job(plain(&queue)).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [before, retried.id, after]);
}

pub(super) async fn a_retry_keeps_its_priority(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let urgent = kit.publish_and_take(at(&queue, 50)).await;
    let waiting = kit.new_jobs(&queue, 2).await;
    kit.fail(&urgent).await;
    kit.advance(RETRY_WAIT);
    assert_eq!(kit.lease_ids(&queue, 10).await, [urgent.id, waiting[0], waiting[1]]);
}

pub(super) async fn an_urgent_job_that_is_not_due_blocks_nobody(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let urgent = kit.new_job(Draft { priority: 100, ..delayed(&queue, 60) }).await;
    let now = kit.new_jobs(&queue, 2).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, now);
    let more = kit.new_jobs(&queue, 2).await;
    kit.advance(secs(60));
    assert_eq!(kit.lease_ids(&queue, 10).await, [urgent, more[0], more[1]]);
}

pub(super) async fn ready_order_survives_a_crash(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let middle = kit.new_jobs(&queue, 2).await;
    let low = kit.new_job(at(&queue, -5)).await;
    let high = kit.new_job(at(&queue, 5)).await;
    let early = kit.new_job(delayed(&queue, 1)).await;
    kit.advance(secs(2));
    let late = kit.new_job(plain(&queue)).await;
    let taken = kit.take(&queue).await;
    assert_eq!(taken.id, high);
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [high, middle[0], middle[1], early, late, low]);
}

pub(super) async fn a_mixed_backlog_goes_out_sorted(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mut expected: Vec<(Reverse<i64>, Millis, JobId)> = Vec::new();
    for n in 0..90_u64 {
        let (priority, delay) = (i64::try_from(n * 7 % 5).expect("small") - 2, n * 13 % 11);
        let wait = if n % 3 == 0 { 0 } else { delay };
        let id = kit.new_job(Draft { priority, ..delayed(&queue, wait) }).await;
        expected.push((Reverse(priority), secs(n + wait), id));
        kit.advance(secs(1));
    }
    kit.advance(secs(60));
    expected.sort();
    let mut got = Vec::new();
    for n in [1, 7, 30, 100] {
        got.extend(kit.lease_ids(&queue, n).await);
        if n == 7 {
            kit.new_job(Draft { delay: Some(secs(600)), ..at(&queue, 100) }).await;
        }
    }
    assert_eq!(got, expected.iter().map(|entry| entry.2).collect::<Vec<_>>());
}
