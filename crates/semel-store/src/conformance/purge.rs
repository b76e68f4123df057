//! Purges: a dead letter goes now, its key when its window ends. And archives, which keep dead letters until a purge.

use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::publish::Draft;
use semel_core::queue::OnDead;
use semel_core::refusal::Refusal;
use semel_core::time::Millis;
use semel_core::{JobId, Outcome};

use super::kit::Kit;
use super::make::{key, keyed, ms, plain, queue_name, secs};
use crate::command::{Command, Reply};
use crate::query::JobQuery;

const KEPT: Millis = secs(100);
const WINDOW: Millis = secs(1000);

async fn orders(kit: &Kit, archive: bool) -> QueueName {
    kit.queue_with("orders", |config| {
        config.retention.completed = KEPT;
        config.retention.dead = KEPT;
        config.retention.archive = archive;
        config.window = WINDOW;
    })
    .await
}

async fn purged(kit: &Kit, id: JobId) {
    assert_eq!(kit.tell(Command::Purge(id)).await, Reply::Done);
}

/// Asserts that nothing is left of a job, also after a crash.
async fn assert_gone(kit: &mut Kit, id: JobId) {
    for _ in 0..2 {
        assert_eq!(kit.find(id).await, None);
        assert_eq!(kit.list(JobQuery { state: Some(State::Dead), ..JobQuery::default() }).await, []);
        kit.crash().await;
    }
    assert!(kit.new_job(plain(&queue_name("orders"))).await > id, "its id is not used again");
}

pub(super) async fn a_purged_dead_letter_leaves_its_key(kit: &mut Kit) {
    let queue = orders(kit, false).await;
    let draft = Draft { metadata: vec![("tenant".into(), "42".into())], ..keyed(&queue, "order-1") };
    let id = kit.dead(draft).await;
    let before = kit.job(id).await;
    purged(kit, id).await;
    for when in ["right away", "after a crash"] {
        let job = kit.job(id).await;
        assert_eq!((&job.spec.payload, &job.spec.metadata[..]), (&None, &[][..]), "{when}");
        assert_eq!((&job.progress.history[..], &job.progress.result), (&[][..], &None), "{when}");
        assert_eq!(
            (job.progress.state, job.progress.finished_at),
            (State::Dead, before.progress.finished_at)
        );
        assert_eq!(kit.stats(&queue).await.dead, 1, "{when}: it still counts");
        kit.crash().await;
    }
    kit.advance(WINDOW.minus(ms(1)));
    assert_eq!(kit.prune().await, (0, 0), "it is stripped already");
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id, "its key holds to the last millisecond");
    kit.advance(ms(1));
    assert_eq!(kit.prune().await, (1, 0), "and then nothing is left");
    kit.new_job(keyed(&queue, "order-1")).await;
}

pub(super) async fn a_purged_dead_letter_without_a_key_is_gone(kit: &mut Kit) {
    let queue = orders(kit, false).await;
    let id = kit.dead(plain(&queue)).await;
    purged(kit, id).await;
    assert_eq!(kit.stats(&queue).await.dead, 0);
    assert_eq!(kit.refused(Command::Purge(id)).await, Refusal::JobNotFound(id));
    assert_gone(kit, id).await;
}

pub(super) async fn a_purged_dead_letter_whose_key_was_released_is_gone(kit: &mut Kit) {
    let queue = orders(kit, false).await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    kit.tell(Command::ReleaseKey { queue: queue.clone(), key: key("order-1"), reason: "test".into() }).await;
    purged(kit, id).await;
    assert_eq!(kit.key(&queue, "order-1").await, None);
    assert_gone(kit, id).await;
}

pub(super) async fn a_purged_dead_letter_whose_window_is_over_is_gone(kit: &mut Kit) {
    let queue = orders(kit, true).await;
    let ids = [kit.dead(keyed(&queue, "a")).await, kit.dead(keyed(&queue, "b")).await];
    kit.advance(WINDOW.minus(ms(1)));
    purged(kit, ids[0]).await;
    assert_eq!(kit.job(ids[0]).await.spec.payload, None, "its key holds a millisecond more");
    kit.advance(ms(1));
    purged(kit, ids[1]).await;
    assert_eq!(kit.prune().await, (1, 0));
    assert_gone(kit, ids[1]).await;
}

pub(super) async fn a_purged_dead_letter_of_a_deleted_queue_is_gone(kit: &mut Kit) {
    let queue = orders(kit, true).await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    kit.tell(Command::DeleteQueue(queue)).await;
    purged(kit, id).await;
    orders(kit, false).await;
    assert_gone(kit, id).await;
}

pub(super) async fn only_a_dead_letter_can_be_purged(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let processing = kit.publish_and_take(plain(&queue)).await.id;
    let received = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&received, Outcome::Received).await;
    let jobs = [
        (kit.completed(plain(&queue)).await, State::Completed),
        (kit.cancelled(plain(&queue)).await, State::Cancelled),
        (processing, State::Processing),
        (received.id, State::AwaitingAck),
        (kit.new_job(plain(&queue)).await, State::Pending),
    ];
    for (id, state) in jobs {
        let refusal = kit.refused(Command::Purge(id)).await;
        assert_eq!(refusal, Refusal::WrongState { id, state, action: "purged" });
    }
}

pub(super) async fn a_stripped_dead_letter_cannot_be_purged(kit: &mut Kit) {
    let queue = orders(kit, false).await;
    let ids = [kit.dead(keyed(&queue, "a")).await, kit.dead(keyed(&queue, "b")).await];
    purged(kit, ids[0]).await;
    kit.advance(KEPT);
    assert_eq!(kit.prune().await, (0, 1));
    for id in ids {
        assert_eq!(kit.refused(Command::Purge(id)).await, Refusal::PayloadGone(id));
    }
}

pub(super) async fn a_purged_dead_letter_does_not_come_back(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.on_dead = OnDead::Revive).await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    purged(kit, id).await;
    assert_eq!(kit.refused(Command::Replay(id)).await, Refusal::PayloadGone(id));
    let answer = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!((answer.id, answer.state), (id, State::Dead), "there is no payload to deliver");
}

pub(super) async fn an_archive_keeps_dead_letters_until_they_are_purged(kit: &mut Kit) {
    let queue = orders(kit, true).await;
    let ids = [kit.dead(keyed(&queue, "a")).await, kit.dead(plain(&queue)).await];
    kit.completed(plain(&queue)).await;
    kit.advance(WINDOW.times(9));
    assert_eq!(kit.prune().await, (1, 0), "what was completed goes as ever");
    kit.crash().await;
    assert_eq!(kit.prune().await, (0, 0));
    for id in ids {
        assert!(kit.job(id).await.spec.payload.is_some(), "it waits for its archive");
        purged(kit, id).await;
        assert_eq!(kit.find(id).await, None, "its window has been over for long");
    }
}

pub(super) async fn an_archive_does_not_keep_what_is_stripped(kit: &mut Kit) {
    let queue = orders(kit, true).await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    kit.advance(KEPT);
    assert_eq!(kit.prune().await, (0, 0));
    purged(kit, id).await;
    kit.advance(WINDOW.minus(KEPT));
    assert_eq!(kit.prune().await, (1, 0), "its key was all that was left");
    assert_eq!(kit.find(id).await, None);
}

pub(super) async fn an_archive_that_is_turned_off_lets_dead_letters_go(kit: &mut Kit) {
    let queue = orders(kit, true).await;
    let ids = [kit.dead(plain(&queue)).await, kit.dead(keyed(&queue, "order-1")).await];
    kit.advance(KEPT);
    for _ in 0..2 {
        assert_eq!(kit.prune().await, (0, 0), "nothing but a purge takes them");
    }
    orders(kit, false).await;
    assert_eq!(kit.prune().await, (1, 1), "their retention counts again");
    assert_eq!(kit.find(ids[0]).await, None);
    assert_eq!(kit.job(ids[1]).await.spec.payload, None);
}
