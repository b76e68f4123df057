//! Retries: when a failed job comes back, how often, and when it is given up.

use semel_core::job::{AttemptStatus, Overrides};
use semel_core::lifecycle::State;
use semel_core::outcome::DeferScope;
use semel_core::publish::Draft;
use semel_core::retry::{Jitter, RetryPolicy};
use semel_core::{JobId, Millis};

use super::kit::Kit;
use super::make::{
    LEASE, RETRY_WAIT, deferred, failed, fixed, keyed, ms, plain, rejected, secs, with_attempts,
};

/// The wait after failure number `used`, as documented: the seed of the jitter is the job and the attempt.
fn wait(policy: &RetryPolicy, id: JobId, used: u32) -> Millis {
    policy.delay(used, id.raw().rotate_left(17) ^ u64::from(used))
}

pub(super) async fn a_failed_job_comes_back_at_its_time_and_not_before(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let due = kit.fail(&delivery).await;
    assert_eq!(due, kit.now().plus(RETRY_WAIT), "the answer says when");
    assert_eq!(kit.job(delivery.id).await.progress.due, due, "and so does the job");
    kit.advance(RETRY_WAIT.minus(ms(1)));
    kit.expect_nothing(&queue, "it is a millisecond early").await;
    kit.advance(ms(1));
    let again = kit.take(&queue).await;
    assert_eq!((again.id, again.attempt), (delivery.id, 2));
    assert_eq!(again.spec, delivery.spec, "it is the same job");
}

pub(super) async fn every_wait_is_the_one_the_policy_computes(kit: &mut Kit) {
    let policy = RetryPolicy {
        base: secs(10),
        factor: 2.0,
        cap: secs(60),
        jitter: Jitter::Full,
        ..RetryPolicy::default()
    };
    let queue = kit
        .queue_with("orders", |config| {
            config.retry = policy.clone();
            config.max_attempts = 7;
        })
        .await;
    let ids = kit.new_jobs(&queue, 4).await;
    for used in 1..7 {
        for delivery in kit.lease(&queue, 10).await {
            let due = kit.fail(&delivery).await;
            assert_eq!(
                due,
                kit.now().plus(wait(&policy, delivery.id, used)),
                "failure {used} of {}",
                delivery.id
            );
        }
        kit.advance(secs(60));
    }
    assert_eq!(kit.lease_ids(&queue, 10).await.len(), ids.len(), "all have one attempt left");
}

pub(super) async fn an_expired_lease_waits_like_a_failure(kit: &mut Kit) {
    let policy = RetryPolicy { base: secs(10), factor: 3.0, cap: secs(90), ..RetryPolicy::default() };
    let queue = kit.queue_with("orders", |config| config.retry = policy.clone()).await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.advance(LEASE.plus(secs(5)));
    kit.rescue().await;
    let due = kit.job(delivery.id).await.progress.due;
    assert_eq!(
        due,
        kit.now().plus(wait(&policy, delivery.id, 1)),
        "counted from the rescue, with the same jitter"
    );
}

pub(super) async fn the_cap_ends_a_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(plain(&queue)).await;
    for attempt in 1..=3 {
        let delivery = kit.take(&queue).await;
        assert_eq!((delivery.attempt, delivery.max_attempts), (attempt, 3));
        let (state, due) = kit.settle(&delivery, failed("boom")).await;
        assert_eq!(
            (state, due.is_some()),
            if attempt < 3 { (State::Pending, true) } else { (State::Dead, false) }
        );
        kit.advance(RETRY_WAIT);
    }
    let progress = kit.job(id).await.progress;
    assert_eq!(progress.attempts, 3);
    assert_eq!(progress.finished_at, progress.history.last().map(|attempt| attempt.at));
    kit.advance(secs(86_400));
    kit.expect_nothing(&queue, "there is no fourth attempt").await;
}

pub(super) async fn one_attempt_means_one(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.max_attempts = 1).await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    assert_eq!(kit.settle(&delivery, failed("boom")).await, (State::Dead, None));
}

pub(super) async fn a_jobs_own_rules_beat_its_queues(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let overrides = Overrides { max_attempts: Some(2), retry: Some(fixed(secs(77))), ..Overrides::default() };
    let delivery = kit.publish_and_take(Draft { overrides, ..plain(&queue) }).await;
    assert_eq!(delivery.max_attempts, 2);
    assert_eq!(kit.fail(&delivery).await, kit.now().plus(secs(77)));
    kit.crash().await;
    kit.advance(secs(77));
    let last = kit.take(&queue).await;
    assert_eq!(kit.settle(&last, failed("boom")).await, (State::Dead, None));
}

pub(super) async fn the_queues_rules_of_now_count(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.queue_with("orders", |config| config.retry = fixed(secs(99))).await;
    assert_eq!(
        kit.fail(&delivery).await,
        kit.now().plus(secs(99)),
        "the policy when it fails, not when it was published"
    );
    kit.advance(secs(99));
    let delivery = kit.take(&queue).await;
    kit.queue_with("orders", |config| config.max_attempts = 2).await;
    assert_eq!(kit.settle(&delivery, failed("boom")).await, (State::Dead, None), "and so does the cap");
}

pub(super) async fn the_history_tells_every_attempt(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(with_attempts(plain(&queue), 4)).await;
    let start = kit.now();
    let first = kit.take(&queue).await;
    kit.settle(&first, failed("one")).await;
    kit.advance(RETRY_WAIT);
    let second = kit.take(&queue).await;
    kit.settle(&second, deferred(RETRY_WAIT, DeferScope::Job)).await;
    kit.advance(RETRY_WAIT);
    kit.take(&queue).await;
    kit.advance(LEASE);
    kit.rescue().await;
    kit.advance(RETRY_WAIT);
    let last = kit.take(&queue).await;
    kit.settle(&last, rejected("four")).await;
    kit.crash().await;
    let history = kit.job(id).await.progress.history;
    let told: Vec<_> = history.iter().map(|a| (a.number, a.status, a.at.since(start))).collect();
    let twice = RETRY_WAIT.times(2).plus(LEASE);
    let expected = [
        (1, AttemptStatus::Failed, Millis::ZERO),
        (2, AttemptStatus::Deferred, RETRY_WAIT),
        (2, AttemptStatus::Expired, twice),
        (3, AttemptStatus::Failed, twice.plus(RETRY_WAIT)),
    ];
    assert_eq!(told, expected);
    assert_eq!((history[0].error.as_deref(), history[3].error.as_deref()), (Some("one"), Some("four")));
}

pub(super) async fn attempts_never_pass_the_cap_however_they_end(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(with_attempts(plain(&queue), 5)).await;
    let mut deliveries = 0;
    while kit.state(id).await == State::Pending {
        let delivery = kit.take(&queue).await;
        deliveries += 1;
        assert_eq!(delivery.attempt, deliveries, "each delivery that ends badly is one attempt");
        if deliveries % 2 == 0 {
            kit.settle(&delivery, failed("boom")).await;
        } else {
            kit.advance(LEASE);
            kit.rescue().await;
        }
        kit.crash().await;
        kit.advance(RETRY_WAIT);
    }
    assert_eq!((deliveries, kit.state(id).await), (5, State::Dead));
}

pub(super) async fn a_retry_waits_through_a_crash(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(keyed(&queue, "order-1")).await;
    let due = kit.fail(&delivery).await;
    kit.crash().await;
    let job = kit.job(delivery.id).await;
    assert_eq!((job.progress.due, job.progress.attempts), (due, 1));
    kit.advance(RETRY_WAIT.minus(ms(1)));
    kit.expect_nothing(&queue, "a crash does not bring it forward").await;
    assert!(kit.next_due(&queue).await.is_some_and(|next| next <= due), "nor make it forgotten");
    kit.advance(ms(1));
    assert_eq!(kit.take(&queue).await.attempt, 2);
}

pub(super) async fn a_retry_without_a_wait_is_ready_at_once(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.retry = fixed(Millis::ZERO)).await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    assert_eq!(kit.fail(&delivery).await, kit.now());
    assert_eq!(kit.take(&queue).await.attempt, 2);
}

pub(super) async fn a_waiting_retry_can_be_cancelled(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.fail(&delivery).await;
    kit.tell(crate::Command::Cancel(delivery.id)).await;
    kit.advance(RETRY_WAIT);
    kit.expect_nothing(&queue, "it was called off").await;
    assert_eq!(kit.job(delivery.id).await.progress.attempts, 1, "its history stays");
}
