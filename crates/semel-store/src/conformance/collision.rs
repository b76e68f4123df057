//! Collisions: the same key with another payload.

use semel_core::name::QueueName;
use semel_core::publish::Draft;
use semel_core::queue::{OnCollision, OnDead};
use semel_core::refusal::Refusal;

use super::kit::Kit;
use super::make::{json, keyed, publish, published, secs};

const FIRST: &str = r#"{"order":1,"cents":100,"sentAt":"10:00"}"#;

fn order(queue: &QueueName, payload: &str) -> Draft {
    Draft { payload: json(payload), ..keyed(queue, "order-1") }
}

async fn rejecting(kit: &Kit) -> QueueName {
    kit.queue_with("orders", |config| config.on_collision = OnCollision::Reject).await
}

pub(super) async fn the_same_value_written_differently_is_no_collision(kit: &mut Kit) {
    let queue = rejecting(kit).await;
    let id = kit.new_job(order(&queue, FIRST)).await;
    for same in [FIRST, r#" { "cents": 1e2, "sentAt": "10:00", "order": 1.0 } "#] {
        let answer = kit.publish(order(&queue, same)).await;
        assert_eq!((answer.id, answer.payload_matches), (id, true), "{same}");
    }
}

pub(super) async fn another_payload_is_flagged_and_the_first_kept(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(order(&queue, FIRST)).await;
    let answer = kit.publish(order(&queue, r#"{"order":1,"cents":999}"#)).await;
    assert_eq!((answer.id, answer.deduplicated, answer.payload_matches), (id, true, false));
    let record = kit.key(&queue, "order-1").await.expect("the key is known");
    assert_eq!(record.job.spec.payload, Some(json(FIRST)), "what was published first is what will be done");
    assert!(!record.suppressed[0].payload_matches, "the trace says so as well");
    assert!(
        kit.publish(order(&queue, FIRST)).await.payload_matches,
        "the next one is compared with the first again"
    );
}

pub(super) async fn another_payload_is_refused_where_the_queue_says_so(kit: &mut Kit) {
    let queue = rejecting(kit).await;
    let id = kit.new_job(order(&queue, FIRST)).await;
    let other = r#"{"order":1,"cents":999,"note":"x","sentAt":"10:00"}"#;
    match kit.refused(publish(order(&queue, other))).await {
        Refusal::KeyCollision { id: holder, mut pointers } => {
            pointers.sort();
            assert_eq!(holder, id);
            assert_eq!(pointers, ["/cents", "/note"], "the refusal names every field that differs");
        }
        other => panic!("a collision must be refused as one, but was refused: {other}"),
    }
    let record = kit.key(&queue, "order-1").await.expect("the key is known");
    assert_eq!(record.suppressed, [], "a refused publish was not suppressed");
}

pub(super) async fn ignored_fields_may_differ(kit: &mut Kit) {
    let queue = kit
        .queue_with("orders", |config| {
            config.on_collision = OnCollision::Reject;
            config.collision_ignore = vec!["/sentAt".into()];
        })
        .await;
    let id = kit.new_job(order(&queue, FIRST)).await;
    let later = kit.publish(order(&queue, r#"{"order":1,"cents":100,"sentAt":"10:05"}"#)).await;
    assert_eq!((later.id, later.payload_matches), (id, true));
    let refusal = kit.refused(publish(order(&queue, r#"{"order":2,"cents":100,"sentAt":"10:05"}"#))).await;
    assert_eq!(refusal, Refusal::KeyCollision { id, pointers: vec!["/order".into()] });
}

pub(super) async fn a_collision_within_a_batch_is_found(kit: &mut Kit) {
    let queue = rejecting(kit).await;
    let answers = kit.apply(vec![publish(order(&queue, FIRST)), publish(order(&queue, "[]"))]).await;
    let id = published(&answers[0]).id;
    assert!(
        matches!(&answers[1], Err(Refusal::KeyCollision { id: holder, .. }) if *holder == id),
        "{:?}",
        answers[1]
    );
    assert_eq!(kit.job(id).await.duplicates, 0, "a refused publish does not count");
}

pub(super) async fn a_collision_is_judged_as_the_queue_is_now(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(order(&queue, FIRST)).await;
    assert_eq!(kit.publish(order(&queue, "[]")).await.id, id);
    rejecting(kit).await;
    assert_eq!(kit.refused(publish(order(&queue, "[]"))).await.code(), "key_collision");
}

pub(super) async fn an_expired_key_collides_with_nothing(kit: &mut Kit) {
    let queue = rejecting(kit).await;
    kit.queue_with("orders", |config| {
        config.on_collision = OnCollision::Reject;
        config.window = secs(10);
    })
    .await;
    kit.completed(order(&queue, FIRST)).await;
    kit.advance(secs(10));
    kit.new_job(order(&queue, "[]")).await;
}

pub(super) async fn a_stripped_job_still_tells_its_payload_from_another(kit: &mut Kit) {
    let stripping = |config: &mut semel_core::QueueConfig| {
        config.on_collision = OnCollision::Reject;
        config.retention.completed = secs(10);
        config.window = secs(1000);
    };
    let queue = kit.queue_with("orders", stripping).await;
    let id = kit.completed(order(&queue, FIRST)).await;
    kit.advance(secs(10));
    assert_eq!(kit.prune().await, (0, 1), "the job is stripped, its key is kept");
    let same = kit.publish(order(&queue, FIRST)).await;
    assert_eq!((same.id, same.payload_matches), (id, true), "the fingerprint outlives the payload");
    let refusal = kit.refused(publish(order(&queue, "[]"))).await;
    assert_eq!(
        refusal,
        Refusal::KeyCollision { id, pointers: vec![] },
        "there is nothing left to compare with"
    );
}

pub(super) async fn a_collision_does_not_revive_a_dead_letter_that_rejects_it(kit: &mut Kit) {
    let queue = kit
        .queue_with("orders", |config| {
            config.on_collision = OnCollision::Reject;
            config.on_dead = OnDead::Revive;
        })
        .await;
    let id = kit.dead(order(&queue, FIRST)).await;
    assert_eq!(kit.refused(publish(order(&queue, "[]"))).await.code(), "key_collision");
    assert_eq!(kit.state(id).await, semel_core::State::Dead);
}

pub(super) async fn a_released_dead_letter_collides_with_nothing(kit: &mut Kit) {
    let queue = kit
        .queue_with("orders", |config| {
            config.on_collision = OnCollision::Reject;
            config.on_dead = OnDead::Release;
        })
        .await;
    let old = kit.dead(order(&queue, FIRST)).await;
    let new = kit.new_job(order(&queue, "[]")).await;
    assert_ne!(new, old);
    assert_eq!(
        kit.refused(publish(order(&queue, FIRST))).await.code(),
        "key_collision",
        "the new job's payload counts"
    );
}
