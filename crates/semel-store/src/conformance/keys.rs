//! Keys: the second publish of the same thing gets the first job, whatever state that is in.

use semel_core::lifecycle::State;
use semel_core::publish::Draft;
use semel_core::queue::OnDead;
use semel_core::refusal::Refusal;

use super::kit::Kit;
use super::make::{LEASE, json, key, keyed, plain, publish, published, queue_name, secs};
use crate::command::{Command, Reply};
use crate::query::{JobQuery, SUPPRESSED_MAX};

pub(super) async fn the_second_publish_gets_the_first_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let first = kit.publish(keyed(&queue, "order-1")).await;
    kit.advance(secs(5));
    let second = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!(second.id, first.id);
    assert_eq!(second.created_at, first.created_at, "it tells when the first was published");
    assert!(second.deduplicated && second.payload_matches);
    assert_eq!(kit.stats(&queue).await.pending, 1, "there is one job");
    assert_eq!(kit.lease_ids(&queue, 10).await, [first.id], "it is delivered once");
}

pub(super) async fn a_duplicate_in_the_same_batch_gets_the_first_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let batch = ["a", "b", "a", "a", "b"].map(|text| publish(keyed(&queue, text))).to_vec();
    let answers: Vec<_> = kit.apply(batch).await.iter().map(published).collect();
    let ids: Vec<_> = answers.iter().map(|answer| answer.id).collect();
    assert_eq!([ids[2], ids[3], ids[4]], [ids[0], ids[0], ids[1]]);
    let duplicates: Vec<_> = answers.iter().map(|answer| answer.deduplicated).collect();
    assert_eq!(duplicates, [false, false, true, true, true]);
    assert_eq!(kit.stats(&queue).await.pending, 2);
}

pub(super) async fn a_key_that_many_publish_at_once_makes_one_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let command = publish(keyed(&queue, "order-1"));
    let answers = kit.at_once(50, |store| {
        let batch = vec![command.clone()];
        async move { store.apply(batch).await.expect("the store takes the batch") }
    });
    let answers: Vec<_> = answers.await.iter().map(|answers| published(&answers[0])).collect();
    assert_eq!(answers.iter().filter(|answer| !answer.deduplicated).count(), 1, "one of them was the first");
    assert!(answers.iter().all(|answer| answer.id == answers[0].id), "all got the same job");
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [answers[0].id], "and it was durable when they got it");
}

pub(super) async fn a_key_finds_its_job_in_every_state(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let taken = kit.publish_and_take(keyed(&queue, "processing")).await;
    let received = kit.publish_and_take(keyed(&queue, "awaiting_ack")).await;
    kit.settle(&received, semel_core::Outcome::Received).await;
    let completed = kit.completed(keyed(&queue, "completed")).await;
    let dead = kit.dead(keyed(&queue, "dead")).await;
    let cancelled = kit.cancelled(keyed(&queue, "cancelled")).await;
    let pending = kit.new_job(keyed(&queue, "pending")).await;
    let expected = [
        (State::Pending, pending),
        (State::Processing, taken.id),
        (State::AwaitingAck, received.id),
        (State::Completed, completed),
        (State::Dead, dead),
        (State::Cancelled, cancelled),
    ];
    for (state, id) in expected {
        let answer = kit.publish(keyed(&queue, state.name())).await;
        assert_eq!((answer.id, answer.state, answer.deduplicated), (id, state, true));
        assert_eq!(
            answer.key_expires_at.is_some(),
            state.is_finished(),
            "{state:?}: only an ended job's key expires"
        );
    }
}

pub(super) async fn a_key_belongs_to_its_queue(kit: &mut Kit) {
    let (orders, mails) = (kit.queue("orders").await, kit.queue("mails").await);
    let order = kit.new_job(keyed(&orders, "order-1")).await;
    let mail = kit.new_job(keyed(&mails, "order-1")).await;
    assert_ne!(order, mail);
    assert_eq!(kit.publish(keyed(&orders, "order-1")).await.id, order);
    assert_eq!(kit.publish(keyed(&mails, "order-1")).await.id, mail);
}

pub(super) async fn keys_are_compared_character_by_character(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    // The last two look the same on screen; the key is the sender's, and is not normalised behind its back.
    let alike =
        ["order-1", "Order-1", "order-1 ", " order-1", "order-10", "order-", "ordér-1", "orde\u{301}r-1"];
    let mut ids = Vec::new();
    for text in alike {
        ids.push(kit.new_job(keyed(&queue, text)).await);
    }
    for (text, id) in alike.into_iter().zip(ids) {
        assert_eq!(kit.publish(keyed(&queue, text)).await.id, id, "{text:?}");
    }
}

pub(super) async fn a_key_never_expires_while_its_job_is_unfinished(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.window = secs(1)).await;
    let waiting = kit.new_job(keyed(&queue, "order-1")).await;
    kit.advance(semel_core::Millis::from_days(800));
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, waiting);
    let record = kit.key(&queue, "order-1").await.expect("the key is known");
    assert!(record.holds && record.expires_at.is_none());
}

pub(super) async fn a_duplicate_changes_nothing_of_the_first(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(keyed(&queue, "order-1")).await;
    let before = kit.job(id).await;
    let other = Draft {
        priority: 9,
        delay: Some(secs(60)),
        metadata: vec![("a".into(), "b".into())],
        ..keyed(&queue, "order-1")
    };
    assert_eq!(kit.publish(other).await.id, id);
    let after = kit.job(id).await;
    assert_eq!(after.spec, before.spec, "the first publish decides what the job is");
    assert_eq!(after.progress, before.progress);
    assert_eq!(kit.take(&queue).await.id, id, "and when it is due");
}

pub(super) async fn suppressed_publishes_leave_a_trace(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(keyed(&queue, "order-1")).await;
    kit.advance(secs(1));
    kit.publish(Draft { publisher: Some("shop-2".into()), ..keyed(&queue, "order-1") }).await;
    kit.advance(secs(1));
    kit.publish(Draft { payload: json("[]"), ..keyed(&queue, "order-1") }).await;
    let record = kit.key(&queue, "order-1").await.expect("the key is known");
    assert_eq!((record.job.id, record.job.duplicates), (id, 2));
    let seen: Vec<_> =
        record.suppressed.iter().map(|s| (s.at, s.publisher.as_deref(), s.payload_matches)).collect();
    let now = kit.now();
    let second_ago = record.job.spec.created_at.plus(secs(1));
    assert_eq!(seen, [(second_ago, Some("shop-2"), true), (now, None, false)], "oldest first");
}

pub(super) async fn the_trace_keeps_the_newest_and_counts_all(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_job(keyed(&queue, "order-1")).await;
    let total = SUPPRESSED_MAX + 3;
    for n in 1..=total {
        kit.publish(Draft { publisher: Some(n.to_string()), ..keyed(&queue, "order-1") }).await;
    }
    let record = kit.key(&queue, "order-1").await.expect("the key is known");
    assert_eq!(record.job.duplicates as usize, total);
    let seen: Vec<_> = record.suppressed.iter().filter_map(|s| s.publisher.clone()).collect();
    let newest: Vec<_> = (4..=total).map(|n| n.to_string()).collect();
    assert_eq!(seen, newest);
}

pub(super) async fn the_answer_counts_the_duplicates(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.on_dead = OnDead::Revive).await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.duplicates, 0, "it is new");
    for n in 1..=3 {
        assert_eq!(kit.publish(keyed(&queue, "order-1")).await.duplicates, n, "this one included");
    }
    let batch = vec![publish(keyed(&queue, "order-1")), publish(keyed(&queue, "order-1"))];
    let counts: Vec<_> = kit.apply(batch).await.iter().map(|a| published(a).duplicates).collect();
    assert_eq!(counts, [4, 5]);
    assert_eq!(kit.publish(keyed(&queue, "order-2")).await.duplicates, 0, "another job has its own");
    let delivery = kit.take(&queue).await;
    kit.reject(&delivery).await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.duplicates, 6, "a revival counts as well");
    assert_eq!(kit.job(delivery.id).await.duplicates, 6);
}

pub(super) async fn a_released_key_is_free_at_once(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let first = kit.new_job(keyed(&queue, "order-1")).await;
    assert_eq!(kit.tell(release(&queue, "order-1")).await, Reply::KeyReleased(first));
    assert_eq!(
        kit.job(first).await.progress.released.as_deref(),
        Some("wrong address"),
        "the reason is kept"
    );
    assert!(
        kit.key(&queue, "order-1").await.is_some_and(|r| r.job.id == first && !r.holds),
        "known, but not held"
    );
    let second = kit.new_job(keyed(&queue, "order-1")).await;
    assert_ne!(second, first);
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, second, "the newest job has the key now");
    assert_eq!(kit.lease_ids(&queue, 10).await, [first, second], "the first job goes on without its key");
}

pub(super) async fn a_key_that_nobody_holds_cannot_be_released(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.window = secs(10)).await;
    let not_found = Refusal::KeyNotFound("order-1".into());
    assert_eq!(kit.refused(release(&queue, "order-1")).await, not_found, "never published");
    let id = kit.completed(keyed(&queue, "order-1")).await;
    kit.advance(secs(10));
    assert_eq!(kit.refused(release(&queue, "order-1")).await, not_found, "its window is over");
    assert_eq!(kit.job(id).await.progress.released, None);
    kit.new_job(keyed(&queue, "order-1")).await;
    kit.tell(release(&queue, "order-1")).await;
    assert_eq!(kit.refused(release(&queue, "order-1")).await, not_found, "already released");
    let refusal = kit.refused(release(&queue_name("nowhere"), "order-1")).await;
    assert!(matches!(refusal, Refusal::QueueNotFound(_) | Refusal::KeyNotFound(_)), "{refusal:?}");
}

pub(super) async fn a_release_can_share_a_batch_with_what_follows(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let batch = vec![
        publish(keyed(&queue, "a")),
        release(&queue, "a"),
        publish(keyed(&queue, "a")),
        publish(keyed(&queue, "a")),
    ];
    let answers = kit.apply(batch).await;
    let (first, second, third) = (published(&answers[0]), published(&answers[2]), published(&answers[3]));
    assert_eq!(answers[1], Ok(Reply::KeyReleased(first.id)));
    assert!(!second.deduplicated && third.deduplicated);
    assert_eq!(third.id, second.id);
}

pub(super) async fn a_key_record_tells_when_the_key_ends(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.window = secs(100)).await;
    assert_eq!(kit.key(&queue, "order-1").await, None, "nothing is known of a key that never came");
    assert_eq!(kit.key(&queue_name("nowhere"), "order-1").await, None);
    let id = kit.completed(keyed(&queue, "order-1")).await;
    let ends = kit.now().plus(secs(100));
    kit.advance(secs(99));
    let record = kit.key(&queue, "order-1").await.expect("the key is known");
    assert_eq!((record.job.id, record.holds, record.expires_at), (id, true, Some(ends)));
    assert_eq!(
        kit.publish(keyed(&queue, "order-1")).await.key_expires_at,
        Some(ends),
        "the publisher is told, too"
    );
    kit.advance(secs(1));
    assert!(kit.key(&queue, "order-1").await.is_some_and(|record| record.job.id == id && !record.holds));
}

pub(super) async fn a_key_is_held_through_all_of_a_jobs_life(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(keyed(&queue, "order-1")).await;
    let id = delivery.id;
    kit.fail(&delivery).await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id, "waiting for its retry");
    kit.advance(secs(10));
    let expired = kit.take(&queue).await;
    kit.advance(LEASE);
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id, "its lease ran out");
    assert_eq!(kit.rescue().await, [expired.id]);
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id, "rescued");
    kit.tell(Command::Cancel(id)).await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, id, "cancelled");
    assert_eq!(kit.list(JobQuery::default()).await.len(), 1, "one job through it all");
}

pub(super) async fn many_keys_are_all_told_apart(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let batch = || (0..1000).map(|n| publish(keyed(&queue, &format!("order-{n}")))).collect::<Vec<_>>();
    let first: Vec<_> = kit.apply(batch()).await.iter().map(published).collect();
    assert!(first.iter().all(|answer| !answer.deduplicated));
    for when in ["at once", "after a crash"] {
        let again: Vec<_> = kit.apply(batch()).await.iter().map(published).collect();
        assert!(again.iter().all(|answer| answer.deduplicated), "{when}: all are duplicates");
        assert!(first.iter().zip(&again).all(|(a, b)| a.id == b.id), "{when}: each of its own first");
        kit.crash().await;
    }
    assert_eq!(kit.stats(&queue).await.pending, 1000);
}

pub(super) async fn a_job_without_a_key_has_no_key_record(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.completed(plain(&queue)).await;
    assert_eq!(kit.job(id).await.spec.key, None);
    assert_eq!(kit.list(JobQuery { key: Some(key("order-1")), ..JobQuery::default() }).await, []);
}

fn release(queue: &semel_core::QueueName, text: &str) -> Command {
    Command::ReleaseKey { queue: queue.clone(), key: key(text), reason: "wrong address".into() }
}
