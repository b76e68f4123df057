//! Pruning: what has ended is stripped and dropped when its retention and its window are over, and never before.

use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::publish::Draft;
use semel_core::time::Millis;
use semel_core::{JobId, Outcome};

use super::kit::Kit;
use super::make::{json, key, keyed, ms, plain, secs};
use crate::command::{Command, Reply};
use crate::query::JobQuery;

const KEPT: Millis = secs(100);
const DEAD_KEPT: Millis = secs(200);
const WINDOW: Millis = secs(1000);

async fn orders(kit: &Kit) -> QueueName {
    kit.queue_with("orders", |config| {
        config.retention.completed = KEPT;
        config.retention.dead = DEAD_KEPT;
        config.window = WINDOW;
    })
    .await
}

/// Asserts that a job without a key is dropped when `kept` is over, and not a millisecond before.
async fn assert_dropped_after(kit: &Kit, id: JobId, kept: Millis) {
    kit.advance(kept.minus(ms(1)));
    assert_eq!(kit.prune().await, (0, 0), "a millisecond early everything is kept");
    assert!(kit.job(id).await.spec.payload.is_some());
    kit.advance(ms(1));
    assert_eq!(kit.prune().await, (1, 0));
    assert_eq!(kit.find(id).await, None, "it is gone");
}

pub(super) async fn a_completed_job_is_dropped_after_its_retention(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(plain(&queue)).await;
    assert_dropped_after(kit, id, KEPT).await;
    assert_eq!(kit.stats(&queue).await.completed, 0);
    assert_eq!(kit.list(JobQuery::default()).await, []);
}

pub(super) async fn a_cancelled_job_is_dropped_after_the_same_retention(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.cancelled(plain(&queue)).await;
    assert_dropped_after(kit, id, KEPT).await;
}

pub(super) async fn a_dead_letter_has_a_retention_of_its_own(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.dead(plain(&queue)).await;
    assert_dropped_after(kit, id, DEAD_KEPT).await;
}

pub(super) async fn what_is_dropped_stays_dropped(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(plain(&queue)).await;
    kit.advance(KEPT);
    kit.prune().await;
    kit.crash().await;
    assert_eq!(kit.find(id).await, None);
    assert_eq!(kit.refused(Command::Replay(id)).await.code(), "job_not_found");
    assert!(kit.new_job(plain(&queue)).await > id, "its id is not used again");
}

pub(super) async fn a_job_whose_key_lives_on_is_stripped(kit: &mut Kit) {
    let queue = orders(kit).await;
    let draft = Draft { metadata: vec![("tenant".into(), "42".into())], ..keyed(&queue, "order-1") };
    let delivery = kit.publish_and_take(draft).await;
    kit.settle(&delivery, Outcome::Done { result: Some(json("[1]")), effect: None }).await;
    let before = kit.job(delivery.id).await;
    kit.advance(KEPT.minus(ms(1)));
    assert_eq!(kit.prune().await, (0, 0), "a millisecond early everything is kept");
    kit.advance(ms(1));
    assert_eq!(kit.prune().await, (0, 1));
    for when in ["right away", "after a crash"] {
        let job = kit.job(delivery.id).await;
        assert_eq!(job.spec.payload, None, "{when}");
        assert_eq!(job.spec.metadata, [], "{when}");
        assert_eq!((&job.progress.history[..], &job.progress.result), (&[][..], &None), "{when}");
        assert_eq!(
            (&job.spec.key, job.spec.fingerprint),
            (&Some(key("order-1")), before.spec.fingerprint),
            "{when}"
        );
        assert_eq!(job.spec.created_at, before.spec.created_at, "{when}");
        assert_eq!(job.progress.state, State::Completed, "{when}");
        assert_eq!(job.progress.finished_at, before.progress.finished_at, "{when}");
        assert_eq!(
            kit.publish(keyed(&queue, "order-1")).await.id,
            delivery.id,
            "{when}: the key still holds"
        );
        assert_eq!(kit.stats(&queue).await.completed, 1, "{when}: it still counts");
        kit.crash().await;
    }
}

pub(super) async fn a_stripped_job_is_dropped_with_its_window(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(keyed(&queue, "order-1")).await;
    kit.advance(KEPT);
    assert_eq!(kit.prune().await, (0, 1));
    assert_eq!(kit.prune().await, (0, 0), "a job is stripped once");
    kit.advance(WINDOW.minus(KEPT).minus(ms(1)));
    assert_eq!(kit.prune().await, (0, 0), "the key holds to the last millisecond");
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id);
    kit.advance(ms(1));
    assert_eq!(kit.prune().await, (1, 0));
    assert_eq!((kit.find(id).await, kit.key(&queue, "order-1").await), (None, None));
    kit.new_job(keyed(&queue, "order-1")).await;
}

pub(super) async fn a_job_whose_window_is_shorter_is_dropped_whole(kit: &mut Kit) {
    let queue = orders(kit).await;
    kit.queue_with("orders", |config| {
        config.retention.completed = KEPT;
        config.window = secs(10);
    })
    .await;
    let id = kit.completed(keyed(&queue, "order-1")).await;
    assert_dropped_after(kit, id, KEPT).await;
}

pub(super) async fn a_released_key_keeps_nothing(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(keyed(&queue, "order-1")).await;
    kit.tell(Command::ReleaseKey { queue: queue.clone(), key: key("order-1"), reason: "test".into() }).await;
    assert_dropped_after(kit, id, KEPT).await;
}

pub(super) async fn a_key_released_after_the_strip_lets_the_job_go(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(keyed(&queue, "order-1")).await;
    kit.advance(KEPT);
    assert_eq!(kit.prune().await, (0, 1));
    let release = Command::ReleaseKey { queue: queue.clone(), key: key("order-1"), reason: "test".into() };
    assert_eq!(kit.tell(release).await, Reply::KeyReleased(id), "a stripped job still holds its key");
    assert_eq!(kit.prune().await, (1, 0));
    assert_eq!(kit.find(id).await, None);
}

pub(super) async fn what_has_not_ended_is_never_pruned(kit: &mut Kit) {
    let queue = orders(kit).await;
    let taken = kit.publish_and_take(plain(&queue)).await;
    let retrying = kit.publish_and_take(keyed(&queue, "order-1")).await;
    kit.fail(&retrying).await;
    let delayed = kit.new_job(Draft { delay: Some(secs(86_400 * 300)), ..plain(&queue) }).await;
    kit.advance(WINDOW.times(1000));
    assert_eq!(kit.prune().await, (0, 0));
    for id in [taken.id, retrying.id, delayed] {
        assert!(kit.job(id).await.spec.payload.is_some());
    }
}

pub(super) async fn a_replayed_job_is_not_pruned(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.dead(plain(&queue)).await;
    kit.advance(DEAD_KEPT);
    kit.tell(Command::Replay(id)).await;
    assert_eq!(kit.prune().await, (0, 0));
    kit.advance(DEAD_KEPT.times(9));
    assert_eq!(kit.prune().await, (0, 0), "it is unfinished");
    let delivery = kit.take(&queue).await;
    kit.reject(&delivery).await;
    assert_dropped_after(kit, id, DEAD_KEPT).await;
}

pub(super) async fn a_changed_retention_counts_for_what_has_ended(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(plain(&queue)).await;
    kit.queue_with("orders", |config| config.retention.completed = secs(500)).await;
    kit.advance(KEPT);
    assert_eq!(kit.prune().await, (0, 0), "kept longer");
    kit.queue_with("orders", |config| config.retention.completed = secs(50)).await;
    assert_eq!(kit.prune().await, (1, 0), "and then not");
    assert_eq!(kit.find(id).await, None);
}

pub(super) async fn a_prune_looks_at_no_more_than_it_was_told(kit: &mut Kit) {
    let queue = orders(kit).await;
    kit.new_jobs(&queue, 10).await;
    for delivery in kit.lease(&queue, 10).await {
        kit.ack(&delivery).await;
    }
    kit.advance(KEPT);
    let (mut total, mut slices) = (0, 0);
    loop {
        match kit.tell(Command::Prune { limit: 3 }).await {
            Reply::Pruned { dropped, stripped, more } => {
                assert!(dropped + stripped <= 3, "at most three at a time");
                total += dropped;
                slices += 1;
                assert!(slices < 100, "a pass ends");
                if !more {
                    break;
                }
            }
            other => panic!("a prune was answered {other:?}"),
        }
    }
    assert_eq!((total, kit.stats(&queue).await.completed), (10, 0), "one pass finds all, in slices");
}

pub(super) async fn a_pass_gets_past_what_must_stay(kit: &mut Kit) {
    let queue = orders(kit).await;
    // Old jobs that stay because of their keys must not hide younger ones that can go.
    for n in 0..6 {
        kit.completed(keyed(&queue, &n.to_string())).await;
    }
    let plain_ids = [kit.completed(plain(&queue)).await, kit.completed(plain(&queue)).await];
    kit.advance(KEPT);
    let mut total = (0, 0);
    for _ in 0..20 {
        if let Reply::Pruned { dropped, stripped, .. } = kit.tell(Command::Prune { limit: 2 }).await {
            total = (total.0 + dropped, total.1 + stripped);
        }
    }
    assert_eq!(total, (2, 6));
    assert_eq!([kit.find(plain_ids[0]).await, kit.find(plain_ids[1]).await], [None, None]);
}

pub(super) async fn a_crash_in_the_middle_of_a_pass_loses_nothing(kit: &mut Kit) {
    let queue = orders(kit).await;
    for n in 0..6 {
        kit.completed(if n % 2 == 0 { plain(&queue) } else { keyed(&queue, &n.to_string()) }).await;
    }
    kit.advance(KEPT);
    kit.tell(Command::Prune { limit: 2 }).await;
    kit.crash().await;
    kit.prune().await;
    let left = kit.list(JobQuery::default()).await;
    assert!(
        left.len() == 3 && left.iter().all(|job| job.spec.payload.is_none()),
        "three stripped jobs stay: {left:?}"
    );
    for n in [1, 3, 5] {
        assert!(kit.publish(keyed(&queue, &n.to_string())).await.deduplicated);
    }
}

pub(super) async fn jobs_of_a_deleted_queue_go_at_once(kit: &mut Kit) {
    let queue = orders(kit).await;
    let ids = [
        kit.completed(keyed(&queue, "a")).await,
        kit.dead(plain(&queue)).await,
        kit.cancelled(plain(&queue)).await,
    ];
    kit.tell(Command::DeleteQueue(queue.clone())).await;
    assert_eq!(kit.prune().await, (3, 0), "retention and windows ended with the queue");
    for id in ids {
        assert_eq!(kit.find(id).await, None);
    }
}

pub(super) async fn jobs_of_a_deleted_queue_do_not_join_its_successor(kit: &mut Kit) {
    let queue = orders(kit).await;
    let old = kit.completed(keyed(&queue, "order-1")).await;
    kit.tell(Command::DeleteQueue(queue.clone())).await;
    orders(kit).await;
    assert_eq!(kit.stats(&queue).await.completed, 0, "the new queue starts empty");
    let new = kit.new_job(keyed(&queue, "order-1")).await;
    assert_eq!(kit.prune().await, (1, 0), "the old job goes");
    assert_eq!((kit.find(old).await, kit.state(new).await), (None, State::Pending), "the new one stays");
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, new);
}
