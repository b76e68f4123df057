//! Dead letters: kept whole, replayed under the same id and key, and what a publish does when it meets one.

use semel_core::lifecycle::State;
use semel_core::publish::RELEASED_BY_PUBLISH;
use semel_core::queue::OnDead;
use semel_core::refusal::Refusal;

use super::kit::Kit;
use super::make::{RETRY_WAIT, failed, json, keyed, plain, rejected, secs};
use crate::command::{Command, Reply};
use crate::query::JobQuery;

pub(super) async fn a_dead_letter_keeps_everything(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(keyed(&queue, "order-1")).await;
    for n in 1..=3 {
        let delivery = kit.take(&queue).await;
        kit.settle(&delivery, failed(&format!("error {n}"))).await;
        kit.advance(RETRY_WAIT);
    }
    kit.crash().await;
    let dead = kit.list(JobQuery { state: Some(State::Dead), ..JobQuery::default() }).await;
    assert_eq!(dead.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    assert_eq!(dead[0].spec.payload, Some(json(r#"{"order":9482}"#)));
    let errors: Vec<_> = dead[0].progress.history.iter().filter_map(|a| a.error.as_deref()).collect();
    assert_eq!(errors, ["error 1", "error 2", "error 3"]);
}

pub(super) async fn a_replay_is_a_new_life_of_the_same_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    let before = kit.job(id).await;
    assert_eq!(before.progress.replayed_at, None);
    kit.advance(secs(500));
    assert_eq!(kit.tell(Command::Replay(id)).await, Reply::Done);
    let replayed_at = Some(kit.now());
    for when in ["right away", "after a crash"] {
        let job = kit.job(id).await;
        assert_eq!(job.spec, before.spec, "{when}: the same job, the same key");
        let progress = &job.progress;
        assert_eq!((progress.state, progress.due), (State::Pending, kit.now()), "{when}");
        assert_eq!((progress.attempts, progress.replays), (0, 1), "{when}: all attempts again");
        assert_eq!(progress.replayed_at, replayed_at, "{when}");
        assert_eq!(progress.history, before.progress.history, "{when}: its history stays");
        assert_eq!((progress.finished_at, progress.settled), (None, None), "{when}");
        kit.crash().await;
    }
    let delivery = kit.take(&queue).await;
    assert_eq!((delivery.id, delivery.attempt), (id, 1));
    kit.advance(secs(5));
    kit.ack(&delivery).await;
    assert_eq!(kit.job(id).await.progress.replayed_at, replayed_at, "it is not forgotten at the end");
}

pub(super) async fn a_job_can_die_and_be_replayed_again(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.max_attempts = 2).await;
    let id = kit.dead(plain(&queue)).await;
    for replays in 1..=3 {
        kit.tell(Command::Replay(id)).await;
        for _ in 0..2 {
            let delivery = kit.take(&queue).await;
            kit.settle(&delivery, failed("still broken")).await;
            kit.advance(RETRY_WAIT);
        }
        let progress = kit.job(id).await.progress;
        assert_eq!((progress.state, progress.replays, progress.attempts), (State::Dead, replays, 2));
    }
    assert_eq!(kit.job(id).await.progress.history.len(), 7, "the history goes on through all lives");
}

pub(super) async fn only_a_dead_letter_can_be_replayed(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let processing = kit.publish_and_take(plain(&queue)).await.id;
    let received = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&received, semel_core::Outcome::Received).await;
    let jobs = [
        (kit.completed(plain(&queue)).await, State::Completed),
        (kit.cancelled(plain(&queue)).await, State::Cancelled),
        (processing, State::Processing),
        (received.id, State::AwaitingAck),
        (kit.new_job(plain(&queue)).await, State::Pending),
    ];
    for (id, state) in jobs {
        match kit.refused(Command::Replay(id)).await {
            Refusal::WrongState { id: named, state: told, .. } => assert_eq!((named, told), (id, state)),
            other => panic!("replaying a job that is {state:?} was refused as: {other}"),
        }
    }
}

pub(super) async fn a_replay_in_a_batch_counts_once(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.dead(plain(&queue)).await;
    let answers = kit.apply(vec![Command::Replay(id), Command::Replay(id)]).await;
    assert_eq!(answers[0], Ok(Reply::Done));
    assert!(matches!(answers[1], Err(Refusal::WrongState { state: State::Pending, .. })), "{:?}", answers[1]);
    assert_eq!(kit.job(id).await.progress.replays, 1);
}

pub(super) async fn a_replayed_job_queues_up_behind_what_is_due(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let dead = kit.dead(plain(&queue)).await;
    kit.advance(secs(1));
    let waiting = kit.new_job(plain(&queue)).await;
    kit.advance(secs(1));
    kit.tell(Command::Replay(dead)).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [waiting, dead], "it is due now, not when it was published");
}

pub(super) async fn a_stripped_dead_letter_cannot_be_replayed(kit: &mut Kit) {
    let queue = kit
        .queue_with("orders", |config| {
            config.retention.dead = secs(100);
            config.window = secs(1000);
        })
        .await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    kit.advance(secs(1));
    kit.tell(Command::Replay(id)).await;
    let replayed_at = Some(kit.now());
    let delivery = kit.take(&queue).await;
    kit.reject(&delivery).await;
    kit.advance(secs(100));
    assert_eq!(kit.prune().await, (0, 1));
    assert_eq!(kit.job(id).await.progress.replayed_at, replayed_at, "how it ended is kept");
    assert_eq!(kit.refused(Command::Replay(id)).await, Refusal::PayloadGone(id));
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id, "its key still holds");
}

pub(super) async fn by_default_a_publish_gets_the_dead_letter(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.on_dead = OnDead::Keep).await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    let answer = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!((answer.id, answer.state, answer.deduplicated), (id, State::Dead, true));
    kit.expect_nothing(&queue, "it stays dead").await;
}

pub(super) async fn a_publish_revives_where_the_queue_says_so(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.on_dead = OnDead::Revive).await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    kit.advance(secs(5));
    let answer = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!((answer.id, answer.state, answer.deduplicated), (id, State::Pending, true));
    assert_eq!(answer.key_expires_at, None, "it is unfinished again");
    kit.crash().await;
    let progress = kit.job(id).await.progress;
    assert_eq!(
        (progress.replays, progress.attempts, progress.due, progress.replayed_at),
        (1, 0, kit.now(), Some(kit.now())),
        "a revival is a replay"
    );
    assert_eq!(kit.lease_ids(&queue, 10).await, [id]);
    let again = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!((again.id, again.state), (id, State::Processing), "only a dead letter is revived");
}

pub(super) async fn only_dead_letters_are_revived(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.on_dead = OnDead::Revive).await;
    kit.completed(keyed(&queue, "done")).await;
    kit.cancelled(keyed(&queue, "cancelled")).await;
    for text in ["done", "cancelled"] {
        assert!(kit.publish(keyed(&queue, text)).await.state.is_finished());
    }
    kit.expect_nothing(&queue, "what was done or called off stays so").await;
}

pub(super) async fn a_stripped_dead_letter_is_not_revived(kit: &mut Kit) {
    let queue = kit
        .queue_with("orders", |config| {
            config.on_dead = OnDead::Revive;
            config.retention.dead = secs(100);
            config.window = secs(1000);
        })
        .await;
    let id = kit.dead(keyed(&queue, "order-1")).await;
    kit.advance(secs(100));
    assert_eq!(kit.prune().await, (0, 1));
    let answer = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!((answer.id, answer.state), (id, State::Dead), "there is no payload to deliver");
}

pub(super) async fn a_publish_takes_the_key_of_a_dead_letter_where_the_queue_says_so(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.on_dead = OnDead::Release).await;
    let old = kit.dead(keyed(&queue, "order-1")).await;
    let answer = kit.publish(keyed(&queue, "order-1")).await;
    assert!(!answer.deduplicated && answer.id != old, "a new job");
    kit.crash().await;
    let dead = kit.job(old).await;
    assert_eq!(dead.progress.state, State::Dead, "the dead letter stays");
    assert_eq!(dead.progress.released.as_deref(), Some(RELEASED_BY_PUBLISH));
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, answer.id, "the new job has the key");
    assert_eq!(kit.lease_ids(&queue, 10).await, [answer.id]);
}

pub(super) async fn a_replayed_job_does_not_take_its_released_key_back(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.on_dead = OnDead::Release).await;
    let old = kit.dead(keyed(&queue, "order-1")).await;
    let new = kit.new_job(keyed(&queue, "order-1")).await;
    kit.tell(Command::Replay(old)).await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, new);
    assert_eq!(kit.lease_ids(&queue, 10).await.len(), 2, "both are delivered");
    kit.tell(Command::Cancel(new)).await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, new, "the newest job decides");
}

pub(super) async fn a_dead_letter_whose_window_is_over_meets_no_publish(kit: &mut Kit) {
    for on_dead in [OnDead::Keep, OnDead::Revive, OnDead::Release] {
        let name = format!("{on_dead:?}");
        let queue = kit
            .queue_with(&name, |config| {
                config.on_dead = on_dead;
                config.window = secs(60);
            })
            .await;
        let old = kit.dead(keyed(&queue, "order-1")).await;
        kit.advance(secs(60));
        let new = kit.new_job(keyed(&queue, "order-1")).await;
        assert_ne!(new, old);
        let progress = kit.job(old).await.progress;
        assert_eq!(
            (progress.state, progress.replays, progress.released),
            (State::Dead, 0, None),
            "{on_dead:?}"
        );
    }
}

pub(super) async fn a_dead_letter_after_a_rejection_can_be_cancelled_only_by_replay(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&delivery, rejected("no")).await;
    assert_eq!(kit.refused(Command::Cancel(delivery.id)).await.code(), "wrong_state");
    kit.tell(Command::Replay(delivery.id)).await;
    kit.tell(Command::Cancel(delivery.id)).await;
    assert_eq!(kit.state(delivery.id).await, State::Cancelled);
}
