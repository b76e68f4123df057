//! The window: how long a key holds after its job has ended, to the millisecond.

use semel_core::job::Overrides;
use semel_core::name::QueueName;
use semel_core::publish::Draft;
use semel_core::{JobId, Millis};

use super::kit::Kit;
use super::make::{keyed, ms, secs};
use crate::command::Command;

const WINDOW: Millis = secs(100);

async fn orders(kit: &Kit) -> QueueName {
    kit.queue_with("orders", |config| config.window = WINDOW).await
}

/// Asserts that the key of `id`, whose job ended just now, holds for `window` to the millisecond.
async fn assert_window(kit: &Kit, queue: &QueueName, text: &str, id: JobId, window: Millis) {
    let ends = kit.now().plus(window);
    kit.advance(window.minus(ms(1)));
    let last = kit.publish(keyed(queue, text)).await;
    assert_eq!(
        (last.id, last.deduplicated),
        (id, true),
        "{text}: a millisecond before its end the key holds"
    );
    assert_eq!(last.key_expires_at, Some(ends), "{text}: the publisher is told when it ends");
    kit.advance(ms(1));
    let next = kit.publish(keyed(queue, text)).await;
    assert!(!next.deduplicated && next.id != id, "{text}: at its end the key is free");
    kit.advance(ms(1));
    assert_eq!(kit.publish(keyed(queue, text)).await.id, next.id, "{text}: and then it is the new job's");
}

pub(super) async fn a_completed_jobs_key_holds_for_its_window(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(keyed(&queue, "order-1")).await;
    assert_window(kit, &queue, "order-1", id, WINDOW).await;
}

pub(super) async fn a_dead_letters_key_holds_for_its_window(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    assert_window(kit, &queue, "order-1", id, WINDOW).await;
}

pub(super) async fn a_cancelled_jobs_key_holds_for_its_window(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.cancelled(keyed(&queue, "order-1")).await;
    assert_window(kit, &queue, "order-1", id, WINDOW).await;
}

pub(super) async fn the_window_survives_a_crash(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(keyed(&queue, "order-1")).await;
    kit.crash().await;
    assert_window(kit, &queue, "order-1", id, WINDOW).await;
}

pub(super) async fn the_window_counts_from_the_end_and_not_from_the_publish(kit: &mut Kit) {
    let queue = orders(kit).await;
    let delivery = kit.publish_and_take(keyed(&queue, "order-1")).await;
    kit.advance(WINDOW.times(3));
    kit.ack(&delivery).await;
    assert_window(kit, &queue, "order-1", delivery.id, WINDOW).await;
}

pub(super) async fn a_duplicate_does_not_prolong_the_window(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(keyed(&queue, "order-1")).await;
    for _ in 0..4 {
        kit.advance(secs(24));
        assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id);
    }
    kit.advance(secs(4));
    assert_ne!(kit.new_job(keyed(&queue, "order-1")).await, id);
}

pub(super) async fn a_jobs_own_window_beats_its_queues(kit: &mut Kit) {
    let queue = orders(kit).await;
    for (text, own) in [("shorter", secs(5)), ("longer", secs(5000)), ("none", Millis::ZERO)] {
        let overrides = Overrides { window: Some(own), ..Overrides::default() };
        let id = kit.completed(Draft { overrides, ..keyed(&queue, text) }).await;
        if own == Millis::ZERO {
            assert_ne!(
                kit.new_job(keyed(&queue, text)).await,
                id,
                "without a window the key ends with its job"
            );
        } else {
            assert_window(kit, &queue, text, id, own).await;
        }
        for delivery in kit.lease(&queue, 10).await {
            kit.ack(&delivery).await;
        }
    }
}

pub(super) async fn a_changed_window_counts_for_jobs_that_have_ended(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.completed(keyed(&queue, "order-1")).await;
    let end = kit.now();
    kit.queue_with("orders", |config| config.window = secs(500)).await;
    kit.advance(secs(400));
    let held = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!((held.id, held.key_expires_at), (id, Some(end.plus(secs(500)))), "the window of now counts");
    kit.queue_with("orders", |config| config.window = secs(300)).await;
    assert_ne!(kit.new_job(keyed(&queue, "order-1")).await, id, "also when it was made shorter");
}

pub(super) async fn an_expired_key_is_free_before_any_prune(kit: &mut Kit) {
    let queue = orders(kit).await;
    let old = kit.completed(keyed(&queue, "order-1")).await;
    kit.advance(WINDOW);
    let new = kit.new_job(keyed(&queue, "order-1")).await;
    assert!(kit.find(old).await.is_some(), "the job itself is kept as long as its retention says");
    assert!(kit.key(&queue, "order-1").await.is_some_and(|record| record.job.id == new && record.holds));
    kit.prune().await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, new, "a prune does not confuse the two");
}

pub(super) async fn the_newest_job_with_a_key_decides(kit: &mut Kit) {
    let queue = orders(kit).await;
    let mut last = kit.completed(keyed(&queue, "order-1")).await;
    for generation in 0..4 {
        kit.advance(WINDOW);
        let id = kit.completed(keyed(&queue, "order-1")).await;
        assert!(id > last, "generation {generation}");
        last = id;
        if generation == 1 {
            kit.crash().await;
        }
        assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, last);
    }
}

pub(super) async fn a_replay_holds_the_key_again(kit: &mut Kit) {
    let queue = orders(kit).await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    kit.advance(WINDOW.minus(ms(1)));
    kit.tell(Command::Replay(id)).await;
    kit.advance(WINDOW.times(2));
    let answer = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!((answer.id, answer.key_expires_at), (id, None), "it is unfinished again");
    let delivery = kit.take(&queue).await;
    kit.ack(&delivery).await;
    assert_window(kit, &queue, "order-1", id, WINDOW).await;
}

pub(super) async fn a_key_of_an_expired_window_comes_back_with_a_replay_unless_it_was_taken(kit: &mut Kit) {
    let queue = orders(kit).await;
    let taken = kit.dead(keyed(&queue, "taken")).await;
    let free = kit.dead(keyed(&queue, "free")).await;
    kit.advance(WINDOW);
    let new = kit.new_job(keyed(&queue, "taken")).await;
    kit.tell(Command::Replay(taken)).await;
    kit.tell(Command::Replay(free)).await;
    assert_eq!(kit.publish(keyed(&queue, "taken")).await.id, new, "the newest job decides");
    assert_eq!(kit.publish(keyed(&queue, "free")).await.id, free, "nobody took this one");
}
