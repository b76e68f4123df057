//! Fencing: a stale token changes nothing, in any state; a repeated settle is recognised.

use semel_core::ids::Token;
use semel_core::lease::Delivery;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::DeferScope;
use semel_core::refusal::Refusal;
use semel_core::{JobId, Millis, Outcome};

use super::kit::Kit;
use super::make::{
    LEASE, RETRY_WAIT, deferred, done, extend, failed, plain, rejected, repeated, secs, settle, settled,
    with_attempts,
};
use crate::command::{Command, Reply};

/// Everything a worker may say with a token, for "whatever it says".
fn sayings() -> [Outcome; 6] {
    let queue_wide = deferred(secs(5), DeferScope::Queue);
    [
        done(),
        failed("late"),
        rejected("late"),
        deferred(secs(5), DeferScope::Job),
        queue_wide,
        Outcome::Received,
    ]
}

/// Asserts that `token` can do nothing to the job, whatever its holder says.
async fn assert_stale(kit: &Kit, id: JobId, token: Token, when: &str) {
    for outcome in sayings() {
        let refusal = kit.refused(settle(id, Some(token), outcome.clone())).await;
        assert_eq!(refusal, Refusal::StaleLease(id), "{when}: {outcome:?} with a stale token");
    }
    let refusal = kit.refused(extend(id, Some(token), secs(3600))).await;
    assert_eq!(refusal, Refusal::StaleLease(id), "{when}: an extension with a stale token");
}

/// A job whose first delivery expired and was rescued, and which is ready again: its token is stale from here on.
async fn with_stale_token(kit: &Kit, queue: &QueueName) -> Delivery {
    let stale = kit.publish_and_take(with_attempts(plain(queue), 5)).await;
    kit.advance(LEASE);
    assert_eq!(kit.rescue().await, [stale.id]);
    kit.advance(RETRY_WAIT);
    stale
}

pub(super) async fn a_stale_token_does_nothing_to_a_waiting_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let stale = with_stale_token(kit, &queue).await;
    assert_stale(kit, stale.id, stale.token, "pending").await;
    assert_eq!(kit.take(&queue).await.attempt, 2, "it is still ready");
}

pub(super) async fn a_stale_token_does_nothing_to_anothers_delivery(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let stale = with_stale_token(kit, &queue).await;
    let current = kit.take(&queue).await;
    assert_stale(kit, stale.id, stale.token, "processing").await;
    assert_eq!(kit.next_expiry().await, Some(current.deadline));
    kit.settle(&current, Outcome::Received).await;
    assert_stale(kit, stale.id, stale.token, "awaiting ack").await;
    kit.ack(&current).await;
}

pub(super) async fn a_stale_token_does_nothing_to_what_has_ended(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    for (outcome, end) in [(done(), State::Completed), (rejected("no"), State::Dead)] {
        let stale = with_stale_token(kit, &queue).await;
        let current = kit.take(&queue).await;
        kit.settle(&current, outcome).await;
        assert_stale(kit, stale.id, stale.token, end.name()).await;
        assert_eq!(kit.state(stale.id).await, end);
    }
    let stale = with_stale_token(kit, &queue).await;
    kit.tell(Command::Cancel(stale.id)).await;
    assert_stale(kit, stale.id, stale.token, "cancelled").await;
}

pub(super) async fn a_token_is_good_for_one_settle(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    for (first, others) in
        [(done(), [failed("x"), rejected("x")]), (deferred(secs(60), DeferScope::Job), [done(), failed("x")])]
    {
        let delivery = kit.publish_and_take(plain(&queue)).await;
        kit.settle(&delivery, first).await;
        for other in others {
            let refusal = kit.refused(settle(delivery.id, Some(delivery.token), other)).await;
            assert_eq!(refusal, Refusal::StaleLease(delivery.id));
        }
    }
}

pub(super) async fn tokens_that_nobody_got_are_refused(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let raw = delivery.token.raw();
    for forged in [0, 1, raw.wrapping_sub(1), raw + 1, raw ^ (1 << 40), i64::MAX as u64, u64::MAX] {
        assert_stale(kit, delivery.id, Token::from_raw(forged), "forged").await;
    }
    kit.ack(&delivery).await;
}

pub(super) async fn a_token_settles_its_own_job_only(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mine = kit.publish_and_take(plain(&queue)).await;
    let yours = kit.publish_and_take(plain(&queue)).await;
    assert_ne!(mine.token, yours.token, "tokens of two live deliveries differ");
    assert_stale(kit, mine.id, yours.token, "another job's").await;
    assert_stale(kit, yours.id, mine.token, "another job's").await;
    kit.ack(&mine).await;
    kit.ack(&yours).await;
}

pub(super) async fn tokens_of_a_job_only_ever_increase(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_job(with_attempts(plain(&queue), 50)).await;
    let mut last = None;
    for round in 0..8 {
        let delivery = kit.take(&queue).await;
        assert!(last < Some(delivery.token), "round {round}: {last:?} before {:?}", delivery.token);
        last = Some(delivery.token);
        match round % 4 {
            0 => {
                kit.fail(&delivery).await;
            }
            1 => {
                kit.settle(&delivery, deferred(RETRY_WAIT, DeferScope::Job)).await;
            }
            2 => {
                kit.advance(LEASE);
                kit.rescue().await;
            }
            _ => kit.crash().await,
        }
        kit.advance(RETRY_WAIT);
    }
}

pub(super) async fn tokens_increase_across_crashes(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(plain(&queue)).await;
    let mut last = None;
    for round in 0..5 {
        let delivery = kit.take(&queue).await;
        assert_eq!((delivery.id, delivery.attempt), (id, 1), "a crash burns no attempt");
        assert!(last < Some(delivery.token), "crash {round}: {last:?} before {:?}", delivery.token);
        last = Some(delivery.token);
        kit.crash().await;
        if round == 2 {
            kit.crash().await;
        }
    }
}

pub(super) async fn tokens_increase_from_one_life_to_the_next(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.reject(&delivery).await;
    kit.crash().await;
    kit.tell(Command::Replay(delivery.id)).await;
    let again = kit.take(&queue).await;
    assert!(again.token > delivery.token);
    for outcome in sayings() {
        let refusal = kit.refused(settle(delivery.id, Some(delivery.token), outcome)).await;
        assert_eq!(refusal, Refusal::StaleLease(delivery.id), "the token of the life before");
    }
    kit.ack(&again).await;
}

pub(super) async fn a_token_from_before_a_crash_is_stale(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let before = kit.publish_and_take(plain(&queue)).await;
    kit.crash().await;
    assert_stale(kit, before.id, before.token, "after the crash").await;
    let after = kit.take(&queue).await;
    assert_stale(kit, before.id, before.token, "after the redelivery").await;
    kit.ack(&after).await;
}

pub(super) async fn of_many_settles_at_once_one_takes_effect(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let command = settle(delivery.id, Some(delivery.token), done());
    let answers = kit.at_once(20, |store| {
        let batch = vec![command.clone()];
        async move { store.apply(batch).await.expect("the store takes the batch").remove(0) }
    });
    let (first, later) =
        (Ok(settled(&queue, State::Completed, Millis::ZERO)), Ok(repeated(&queue, State::Completed, None)));
    let answers = answers.await;
    assert_eq!(answers.iter().filter(|given| **given == first).count(), 1, "one of them took effect");
    assert_eq!(answers.iter().filter(|given| **given == later).count(), 19, "the others are repeats");
    assert_eq!(kit.job(delivery.id).await.progress.attempts, 1);
}

pub(super) async fn a_repeated_settle_is_recognised(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    for outcome in [done(), failed("boom"), rejected("never"), deferred(secs(60), DeferScope::Job)] {
        let delivery = kit.publish_and_take(plain(&queue)).await;
        let (state, due) = kit.settle(&delivery, outcome.clone()).await;
        let before = kit.job(delivery.id).await;
        for token in [Some(delivery.token), None] {
            let reply = kit.tell(settle(delivery.id, token, outcome.clone())).await;
            assert_eq!(reply, repeated(&queue, state, due), "{outcome:?} with {token:?}");
            assert_eq!(kit.job(delivery.id).await, before, "{outcome:?}: a repeat changes nothing");
        }
    }
}

pub(super) async fn a_repeated_settle_is_recognised_after_a_crash(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    for outcome in [done(), failed("boom"), rejected("never"), deferred(secs(60), DeferScope::Job)] {
        let delivery = kit.publish_and_take(plain(&queue)).await;
        let (state, due) = kit.settle(&delivery, outcome.clone()).await;
        kit.crash().await;
        let reply = kit.tell(settle(delivery.id, Some(delivery.token), outcome.clone())).await;
        assert_eq!(reply, repeated(&queue, state, due), "{outcome:?}");
    }
}

pub(super) async fn a_repeat_does_not_end_the_next_delivery(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let first = kit.publish_and_take(plain(&queue)).await;
    kit.fail(&first).await;
    kit.advance(RETRY_WAIT);
    let second = kit.take(&queue).await;
    match kit.tell(settle(first.id, Some(first.token), failed("boom"))).await {
        Reply::Settled { state: State::Processing, repeated: true, .. } => {}
        other => panic!("the nack of the first delivery is a repeat, but was answered {other:?}"),
    }
    assert_eq!(kit.job(first.id).await.progress.attempts, 1, "a repeat burns no attempt");
    kit.ack(&second).await;
}

pub(super) async fn a_repeated_receipt_is_recognised(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&delivery, Outcome::Received).await;
    let expiry = kit.next_expiry().await;
    kit.advance(secs(1));
    match kit.tell(settle(delivery.id, Some(delivery.token), Outcome::Received)).await {
        Reply::Settled { state: State::AwaitingAck, repeated: true, .. } => {}
        other => panic!("received twice was answered {other:?}"),
    }
    assert_eq!(kit.next_expiry().await, expiry, "a repeat does not prolong the lease");
    kit.ack(&delivery).await;
}

pub(super) async fn another_verb_without_a_token_is_no_repeat(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.ack(&delivery).await;
    let refusal = kit.refused(settle(delivery.id, None, failed("boom"))).await;
    assert_eq!(refusal, Refusal::NotLeased { id: delivery.id, state: State::Completed });
    let refusal = kit.refused(extend(delivery.id, None, secs(60))).await;
    assert_eq!(refusal, Refusal::NotLeased { id: delivery.id, state: State::Completed });
}

pub(super) async fn an_extension_without_a_token_is_for_the_current_delivery(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let waiting = kit.new_job(plain(&queue)).await;
    let refusal = kit.refused(extend(waiting, None, secs(60))).await;
    assert_eq!(refusal, Refusal::NotLeased { id: waiting, state: State::Pending });
    let delivery = kit.take(&queue).await;
    let until = kit.now().plus(secs(60));
    assert_eq!(kit.tell(extend(delivery.id, None, secs(60))).await, Reply::Extended(until));
    assert_eq!(kit.next_expiry().await, Some(until));
    kit.ack(&delivery).await;
}
