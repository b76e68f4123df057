//! Crashes: the process is killed and the store opened again. What was answered is there, leases are gone.
//!
//! Every case of the suite ends with a crash and a comparison; these tell what must hold in particular.

use semel_core::lifecycle::State;
use semel_core::outcome::{DeferScope, Outcome};
use semel_core::publish::Draft;

use super::kit::Kit;
use super::make::{
    LEASE, deferred, done, extend, failed, key, keyed, plain, publish, published, secs, settle,
};
use super::snapshot::Snapshot;
use crate::command::{Command, Reply, Rescued};
use crate::error::StoreError;
use crate::query::JobQuery;
use crate::store::Store;

pub(super) async fn a_published_job_is_there_and_goes_out(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ids = kit.new_jobs(&queue, 3).await;
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, ids);
}

pub(super) async fn a_publish_repeated_after_a_crash_gets_the_first_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(keyed(&queue, "order-1")).await;
    for round in 0..3 {
        kit.crash().await;
        let answer = kit.publish(keyed(&queue, "order-1")).await;
        assert_eq!((answer.id, answer.deduplicated), (id, true), "crash {round}");
    }
    assert_eq!(kit.stats(&queue).await.pending, 1);
}

pub(super) async fn a_job_in_flight_goes_out_again(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let before = kit.publish_and_take(plain(&queue)).await;
    kit.crash().await;
    assert_eq!(kit.state(before.id).await, State::Pending);
    assert_eq!(kit.next_expiry().await, None, "leases are gone");
    let after = kit.take(&queue).await;
    assert_eq!((after.id, after.attempt), (before.id, 1), "a crash of the store burns no attempt of the job");
    assert_eq!(after.spec, before.spec);
    kit.ack(&after).await;
}

pub(super) async fn a_received_job_goes_out_again(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&delivery, Outcome::Received).await;
    kit.crash().await;
    let again = kit.take(&queue).await;
    assert_eq!((again.id, again.attempt), (delivery.id, 1));
}

pub(super) async fn an_extended_lease_is_lost_like_any_other(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.tell(extend(delivery.id, Some(delivery.token), secs(3600))).await;
    kit.crash().await;
    assert_eq!(kit.take(&queue).await.id, delivery.id);
}

pub(super) async fn an_ack_is_never_forgotten(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.completed(plain(&queue)).await;
    kit.crash().await;
    assert_eq!(kit.state(id).await, State::Completed);
    kit.advance(LEASE.times(10));
    kit.expect_nothing(&queue, "what is done is not done again").await;
}

pub(super) async fn used_attempts_are_never_forgotten(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let expired = kit.publish_and_take(plain(&queue)).await;
    kit.advance(LEASE);
    kit.rescue().await;
    let failed_one = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&failed_one, failed("boom")).await;
    let deferred_one = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&deferred_one, deferred(secs(5), DeferScope::Job)).await;
    kit.crash().await;
    let mut used = Vec::new();
    for id in [failed_one.id, expired.id, deferred_one.id] {
        let progress = kit.job(id).await.progress;
        used.push((progress.attempts, progress.deferrals, progress.history.len()));
    }
    assert_eq!(used, [(1, 0, 1), (1, 0, 1), (0, 1, 1)]);
}

pub(super) async fn a_cancelled_or_buried_job_stays_so(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let dead = kit.dead(plain(&queue)).await;
    let cancelled = kit.cancelled(plain(&queue)).await;
    let cancelled_in_flight = kit.publish_and_take(plain(&queue)).await.id;
    kit.tell(Command::Cancel(cancelled_in_flight)).await;
    kit.crash().await;
    let states = [kit.state(dead).await, kit.state(cancelled).await, kit.state(cancelled_in_flight).await];
    assert_eq!(states, [State::Dead, State::Cancelled, State::Cancelled]);
    kit.expect_nothing(&queue, "nothing comes back to life").await;
}

pub(super) async fn a_replay_is_never_forgotten(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.dead(plain(&queue)).await;
    kit.tell(Command::Replay(id)).await;
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [id]);
}

pub(super) async fn a_released_key_stays_released(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let old = kit.new_job(keyed(&queue, "order-1")).await;
    kit.tell(Command::ReleaseKey { queue: queue.clone(), key: key("order-1"), reason: "typo".into() }).await;
    kit.crash().await;
    let new = kit.new_job(keyed(&queue, "order-1")).await;
    assert_ne!(new, old);
    kit.crash().await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, new);
    assert_eq!(kit.job(old).await.progress.released.as_deref(), Some("typo"));
}

pub(super) async fn a_mixed_batch_is_there_whole(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let out = [kit.publish_and_take(plain(&queue)).await, kit.publish_and_take(plain(&queue)).await];
    let waiting = kit.new_job(plain(&queue)).await;
    let answers = kit
        .apply(vec![
            publish(keyed(&queue, "order-1")),
            settle(out[0].id, Some(out[0].token), done()),
            Command::Cancel(waiting),
            settle(out[1].id, Some(out[1].token), failed("boom")),
            publish(keyed(&queue, "order-2")),
        ])
        .await;
    kit.crash().await;
    let new = [published(&answers[0]).id, published(&answers[4]).id];
    let states = [kit.state(out[0].id).await, kit.state(out[1].id).await, kit.state(waiting).await];
    assert_eq!(states, [State::Completed, State::Pending, State::Cancelled]);
    assert_eq!(kit.lease_ids(&queue, 10).await, new);
}

pub(super) async fn crash_after_crash_changes_nothing(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.completed(keyed(&queue, "a")).await;
    kit.dead(plain(&queue)).await;
    kit.new_job(Draft { delay: Some(secs(9)), ..keyed(&queue, "b") }).await;
    kit.crash().await;
    let once = Snapshot::of(kit).await;
    for _ in 0..3 {
        kit.crash().await;
    }
    Snapshot::of(kit).await.assert_same(&once, "an idle store that is killed again");
}

pub(super) async fn life_goes_on_through_a_crash_at_every_step(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.crash().await;
    let id = kit.new_job(keyed(&queue, "order-1")).await;
    kit.crash().await;
    let delivery = kit.take(&queue).await;
    kit.fail(&delivery).await;
    kit.crash().await;
    kit.advance(secs(10));
    let delivery = kit.take(&queue).await;
    kit.reject(&delivery).await;
    kit.crash().await;
    kit.tell(Command::Replay(id)).await;
    kit.crash().await;
    let delivery = kit.take(&queue).await;
    assert_eq!((delivery.id, delivery.attempt), (id, 1));
    kit.ack(&delivery).await;
    kit.crash().await;
    let progress = kit.job(id).await.progress;
    assert_eq!((progress.state, progress.replays, progress.history.len()), (State::Completed, 1, 3));
    assert_eq!(kit.list(JobQuery::default()).await.len(), 1);
}

pub(super) async fn time_goes_on_after_a_crash(kit: &mut Kit) {
    let before = kit.now();
    kit.crash().await;
    assert!(kit.now() >= before, "the clock does not go back");
    kit.advance(secs(5));
    assert_eq!(kit.now(), before.plus(secs(5)), "and the harness still moves it");
}

pub(super) async fn a_closed_store_says_so_and_has_kept_everything(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(keyed(&queue, "order-1")).await;
    let store = kit.store();
    store.close().await.expect("a store closes");
    store.close().await.expect("closing twice is fine");
    for (call, answer) in calls_on(&*store, publish(plain(&queue)), id).await {
        assert!(
            matches!(answer, Err(StoreError::Closed)),
            "{call} on a closed store was answered {answer:?}"
        );
    }
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [id], "what was answered is durable");
}

/// Every call of the trait that can fail, as a name and what came of it.
async fn calls_on(
    store: &dyn Store,
    publish: Command,
    id: semel_core::JobId,
) -> Vec<(&'static str, Result<(), StoreError>)> {
    let queue = super::make::queue_name("orders");
    let request = semel_core::lease::LeaseRequest::new(queue.clone(), 1, None).expect("a valid request");
    vec![
        ("apply", store.apply(vec![publish]).await.map(drop)),
        ("lease", store.lease(request).await.map(drop)),
        ("next_due", store.next_due(&queue).await.map(drop)),
        ("next_expiry", store.next_expiry().await.map(drop)),
        ("job", store.job(id).await.map(drop)),
        ("jobs", store.jobs(JobQuery::default()).await.map(drop)),
        ("key", store.key(&queue, &key("order-1")).await.map(drop)),
        ("queue", store.queue(&queue).await.map(drop)),
        ("queues", store.queues().await.map(drop)),
        ("schedules", store.schedules().await.map(drop)),
        ("api_keys", store.api_keys().await.map(drop)),
        ("replays", store.replays().await.map(drop)),
        ("stats", store.stats().await.map(drop)),
        ("health", store.health().await.map(drop)),
    ]
}

pub(super) async fn the_answer_to_a_rescue_is_durable(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.max_attempts = 1).await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.advance(LEASE);
    let dead = Rescued { id: delivery.id, queue, state: State::Dead, due: None };
    assert_eq!(
        kit.tell(Command::Rescue { limit: 1 }).await,
        Reply::Rescued { jobs: vec![dead], more: false }
    );
    kit.crash().await;
    assert_eq!(kit.state(delivery.id).await, State::Dead, "it used its only attempt");
}
