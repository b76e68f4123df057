//! Batches: answered in order, one by one, each seeing what came before it.

use semel_core::lifecycle::State;
use semel_core::publish::Draft;
use semel_core::refusal::Refusal;
use semel_core::time::Millis;

use super::kit::Kit;
use super::make::{
    RETRY_WAIT, config, done, failed, json, key, keyed, plain, publish, published, queue_name, rejected,
    repeated, secs, settle, settled,
};
use super::snapshot::Snapshot;
use crate::command::{Command, Reply, Rescued};
use crate::store::BATCH_MAX;

pub(super) async fn an_empty_batch_has_no_answers(kit: &mut Kit) {
    assert_eq!(kit.apply(vec![]).await, []);
}

pub(super) async fn the_largest_batch_is_taken(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let answers = kit.apply(vec![publish(plain(&queue)); BATCH_MAX]).await;
    let ids: Vec<_> = answers.iter().map(|answer| published(answer).id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "answers come in the order of the commands");
    assert_eq!(kit.stats(&queue).await.pending, BATCH_MAX as u64);
}

pub(super) async fn a_batch_too_large_changes_nothing(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_job(keyed(&queue, "order-1")).await;
    let before = Snapshot::of(kit).await;
    let error = kit.store().apply(vec![publish(plain(&queue)); BATCH_MAX + 1]).await;
    assert!(error.is_err(), "one command too many");
    Snapshot::of(kit).await.assert_same(&before, "a batch that is too large");
    kit.crash().await;
    assert_eq!(kit.stats(&queue).await.pending, 1, "not even after a crash");
    kit.new_job(plain(&queue)).await;
}

pub(super) async fn a_refused_command_does_not_keep_the_others_from_being_done(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.payload_limit = 20).await;
    let big = json(&format!("\"{}\"", "x".repeat(30)));
    let answers = kit
        .apply(vec![
            publish(keyed(&queue, "first")),
            publish(keyed(&queue_name("nowhere"), "second")),
            publish(Draft { payload: big, ..keyed(&queue, "third") }),
            Command::Cancel(semel_core::JobId::ZERO),
            publish(keyed(&queue, "fifth")),
        ])
        .await;
    let codes: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(Refusal::code)).collect();
    assert_eq!(
        codes,
        [None, Some("queue_not_found"), Some("payload_too_large"), Some("job_not_found"), None]
    );
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [published(&answers[0]).id, published(&answers[4]).id]);
    assert_eq!(kit.key(&queue, "third").await, None);
}

pub(super) async fn a_batch_of_refusals_changes_nothing(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.completed(plain(&queue)).await;
    let before = Snapshot::of(kit).await;
    let answers = kit
        .apply(vec![
            Command::Cancel(id),
            Command::Replay(id),
            settle(id, None, failed("late")),
            Command::Pause { queue: queue_name("nowhere"), paused: true },
            Command::DeleteSchedule("nightly".into()),
            Command::DeleteApiKey("key".into()),
            Command::ReleaseKey { queue, key: key("none"), reason: String::new() },
        ])
        .await;
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    Snapshot::of(kit).await.assert_same(&before, "a batch in which everything is refused");
}

pub(super) async fn a_queue_can_be_used_in_the_batch_that_makes_it(kit: &mut Kit) {
    let queue = queue_name("orders");
    let make = Command::PutQueue { name: queue.clone(), config: Box::new(config()) };
    let batch =
        vec![publish(plain(&queue)), make, publish(plain(&queue)), Command::DeleteQueue(queue.clone())];
    let answers = kit.apply(batch).await;
    assert_eq!(answers[0], Err(Refusal::QueueNotFound(queue.clone())), "before it was made");
    assert_eq!(answers[1], Ok(Reply::Done));
    assert_eq!(published(&answers[2]).state, State::Pending);
    assert_eq!(
        answers[3],
        Err(Refusal::QueueNotEmpty { queue: queue.clone(), unfinished: 1 }),
        "after a publish"
    );
    assert_eq!(kit.lease(&queue, 10).await.len(), 1);
}

pub(super) async fn a_deleted_queue_takes_nothing_later_in_the_batch(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let old = kit.completed(keyed(&queue, "order-1")).await;
    let make = Command::PutQueue { name: queue.clone(), config: Box::new(config()) };
    let delete = Command::DeleteQueue(queue.clone());
    let batch = vec![delete, publish(plain(&queue)), make, publish(keyed(&queue, "order-1"))];
    let answers = kit.apply(batch).await;
    assert_eq!(answers[1], Err(Refusal::QueueNotFound(queue.clone())));
    let new = published(&answers[3]);
    assert!(
        !new.deduplicated && new.id != old,
        "the queue made again is a new one, in the same batch as well"
    );
    kit.prune().await;
}

pub(super) async fn a_job_can_live_its_life_in_one_batch(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let d = kit.publish_and_take(plain(&queue)).await;
    let say = |outcome| settle(d.id, Some(d.token), outcome);
    let batch = vec![
        say(rejected("no")),
        Command::Replay(d.id),
        Command::Cancel(d.id),
        Command::Cancel(d.id),
        say(done()),
    ];
    let answers = kit.apply(batch).await;
    assert_eq!(answers[0], Ok(settled(&queue, State::Dead, Millis::ZERO)));
    assert_eq!(answers[1..3], [Ok(Reply::Done), Ok(Reply::Done)]);
    assert_eq!(answers[3].as_ref().map_err(Refusal::code), Err("wrong_state"));
    assert_eq!(answers[4], Err(Refusal::StaleLease(d.id)));
    assert_eq!(kit.state(d.id).await, State::Cancelled);
}

pub(super) async fn the_first_of_two_settles_in_a_batch_counts(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let d = kit.publish_and_take(plain(&queue)).await;
    let say = |outcome| settle(d.id, Some(d.token), outcome);
    let answers = kit.apply(vec![say(done()), say(done()), say(failed("boom"))]).await;
    assert_eq!(answers[0], Ok(settled(&queue, State::Completed, Millis::ZERO)));
    assert_eq!(answers[1], Ok(repeated(&queue, State::Completed, None)));
    assert_eq!(answers[2], Err(Refusal::StaleLease(d.id)));
    assert_eq!(kit.job(d.id).await.progress.attempts, 1);
}

pub(super) async fn a_published_job_can_be_called_off_in_the_next_batch_slot(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let first = kit.new_job(keyed(&queue, "order-1")).await;
    let batch = vec![Command::Cancel(first), publish(keyed(&queue, "order-1"))];
    let answers = kit.apply(batch).await;
    let again = published(&answers[1]);
    assert_eq!((again.id, again.state), (first, State::Cancelled), "the later command sees the earlier one");
}

pub(super) async fn upkeep_can_share_a_batch_with_work(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.retention.completed = secs(10)).await;
    let old = kit.completed(plain(&queue)).await;
    let late = kit.publish_and_take(plain(&queue)).await;
    kit.advance(secs(30));
    let batch = vec![
        Command::Prune { limit: 10 },
        publish(plain(&queue)),
        Command::Rescue { limit: 10 },
        settle(late.id, Some(late.token), done()),
    ];
    let answers = kit.apply(batch).await;
    assert!(matches!(answers[0], Ok(Reply::Pruned { dropped: 1, .. })), "{:?}", answers[0]);
    assert!(
        matches!(&answers[2], Ok(Reply::Rescued { jobs, .. }) if jobs[0].id == late.id),
        "{:?}",
        answers[2]
    );
    assert_eq!(answers[3], Err(Refusal::StaleLease(late.id)), "the rescue came first");
    assert_eq!(kit.find(old).await, None);
}

pub(super) async fn upkeep_without_a_limit_takes_all_there_is(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.retention.completed = secs(1)).await;
    kit.completed(plain(&queue)).await;
    let late = kit.publish_and_take(plain(&queue)).await;
    kit.advance(secs(60));
    let batch = vec![Command::Rescue { limit: u32::MAX }, Command::Prune { limit: u32::MAX }];
    let due = Some(kit.now().plus(RETRY_WAIT));
    let late = Rescued { id: late.id, queue, state: State::Pending, due };
    let rescued = Reply::Rescued { jobs: vec![late], more: false };
    let pruned = Reply::Pruned { dropped: 1, stripped: 0, more: false };
    assert_eq!(kit.apply(batch).await, [Ok(rescued), Ok(pruned)]);
}

pub(super) async fn limits_of_zero_do_nothing(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.retention.completed = secs(1)).await;
    kit.completed(plain(&queue)).await;
    let late = kit.publish_and_take(plain(&queue)).await;
    kit.advance(secs(60));
    let before = Snapshot::of(kit).await;
    match kit.ask(Command::Rescue { limit: 0 }).await {
        Ok(Reply::Rescued { jobs, .. }) => assert_eq!(jobs, []),
        other => assert_eq!(other.map_err(|refusal| refusal.code()), Err("invalid")),
    }
    match kit.ask(Command::Prune { limit: 0 }).await {
        Ok(Reply::Pruned { dropped, stripped, .. }) => assert_eq!((dropped, stripped), (0, 0)),
        other => assert_eq!(other.map_err(|refusal| refusal.code()), Err("invalid")),
    }
    Snapshot::of(kit).await.assert_same(&before, "upkeep with a limit of zero");
    kit.ack(&late).await;
}
