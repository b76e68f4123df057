//! Settling: what an outcome makes of a job, and what is kept of it.

use semel_core::job::{AttemptStatus, HISTORY_MAX};
use semel_core::lifecycle::State;
use semel_core::outcome::{DeferScope, Effect, Receipt};
use semel_core::refusal::Refusal;
use semel_core::settle::{REASON_MAX, RESULT_MAX, Report, Settle};
use semel_core::{JobId, Millis, Outcome};

use super::kit::Kit;
use super::make::{
    RETRY_WAIT, deferred, done, extend, failed, json, ms, plain, publish, rejected, secs, settle, settled,
};
use crate::command::{Command, Reply};

pub(super) async fn an_ack_completes_the_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.advance(secs(4));
    let effect = Some(Receipt { outcome: Effect::Applied, key: Some("order-1:charge".into()) });
    let outcome = Outcome::Done { result: Some(json(r#"{"charged": 100}"#)), effect: effect.clone() };
    assert_eq!(kit.settle(&delivery, outcome).await, (State::Completed, None));
    for when in ["right away", "after a crash"] {
        let progress = kit.job(delivery.id).await.progress;
        assert_eq!(
            (progress.state, progress.attempts),
            (State::Completed, 1),
            "{when}: done is an attempt, too"
        );
        assert_eq!(progress.finished_at, Some(kit.now()), "{when}");
        assert_eq!(progress.result, Some(json(r#"{"charged": 100}"#)), "{when}");
        assert_eq!(progress.effect, effect, "{when}");
        assert_eq!(progress.history.len(), 1, "{when}");
        let attempt = &progress.history[0];
        assert_eq!(
            (attempt.number, attempt.status, attempt.at),
            (1, AttemptStatus::Success, kit.now()),
            "{when}"
        );
        assert_eq!(attempt.effect, effect, "{when}");
        kit.crash().await;
    }
    kit.expect_nothing(&queue, "a completed job is not delivered").await;
}

pub(super) async fn a_rejection_buries_the_job_at_once(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    assert_eq!(kit.settle(&delivery, rejected("no such customer")).await, (State::Dead, None));
    let progress = kit.job(delivery.id).await.progress;
    assert_eq!((progress.attempts, progress.finished_at), (1, Some(kit.now())));
    assert_eq!(progress.last_error(), Some("no such customer"));
    kit.advance(secs(36_000));
    kit.expect_nothing(&queue, "a dead letter is not delivered").await;
}

pub(super) async fn a_received_job_is_settled_later(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    assert_eq!(kit.settle(&delivery, Outcome::Received).await.0, State::AwaitingAck);
    let progress = kit.job(delivery.id).await.progress;
    assert_eq!((progress.state, progress.attempts), (State::AwaitingAck, 0), "received is not an end");
    assert_eq!(progress.history, []);
    kit.expect_nothing(&queue, "it is with its worker").await;
    kit.ack(&delivery).await;
    assert_eq!(kit.job(delivery.id).await.progress.attempts, 1);
}

pub(super) async fn a_received_job_can_end_in_every_way(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ends = [
        (failed("boom"), State::Pending),
        (rejected("never"), State::Dead),
        (deferred(secs(5), DeferScope::Job), State::Pending),
        (done(), State::Completed),
    ];
    for (outcome, end) in ends {
        let delivery = kit.publish_and_take(plain(&queue)).await;
        kit.settle(&delivery, Outcome::Received).await;
        assert_eq!(kit.settle(&delivery, outcome).await.0, end);
    }
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&delivery, Outcome::Received).await;
    kit.tell(Command::Cancel(delivery.id)).await;
    assert_eq!(kit.state(delivery.id).await, State::Cancelled);
}

pub(super) async fn the_report_of_a_delivery_is_kept(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let report = Report { status_code: Some(503), duration: Some(secs(2)), ..Report::default() };
    let pushed = Settle::new(delivery.id, Some(delivery.token), failed("HTTP 503"), report).expect("valid");
    kit.tell(Command::Settle(pushed)).await;
    kit.advance(secs(10));
    let delivery = kit.take(&queue).await;
    let effect = Some(Receipt { outcome: Effect::Applied, key: Some("charge-1".into()) });
    let report = Report { from_worker: true, effect: effect.clone(), ..Report::default() };
    let nack = Settle::new(delivery.id, Some(delivery.token), failed("no"), report).expect("valid");
    kit.tell(Command::Settle(nack)).await;
    let history = kit.job(delivery.id).await.progress.history;
    assert_eq!((history[0].status, history[0].status_code), (AttemptStatus::Failed, Some(503)));
    assert_eq!((history[0].duration, history[0].error.as_deref()), (Some(secs(2)), Some("HTTP 503")));
    assert_eq!((history[1].status, history[1].error.as_deref()), (AttemptStatus::Nacked, Some("no")));
    assert_eq!(
        (&history[0].effect, &history[1].effect),
        (&None, &effect),
        "a handler may fail after the effect"
    );
}

pub(super) async fn a_settle_tells_its_queue_and_how_long_the_delivery_took(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.tell(extend(delivery.id, Some(delivery.token), secs(60))).await;
    kit.advance(secs(3));
    let due = Some(kit.now().plus(RETRY_WAIT));
    let answer =
        |state, due, took| Reply::Settled { queue: queue.clone(), state, due, took, repeated: false };
    let nack = settle(delivery.id, Some(delivery.token), failed("no"));
    assert_eq!(kit.tell(nack).await, answer(State::Pending, due, Some(secs(3))), "since it was leased");
    kit.advance(RETRY_WAIT);
    let delivery = kit.take(&queue).await;
    kit.advance(secs(1));
    let received = settle(delivery.id, Some(delivery.token), Outcome::Received);
    assert_eq!(kit.tell(received).await, answer(State::AwaitingAck, None, None), "it goes on");
    kit.advance(secs(4));
    let later = settle(delivery.id, Some(delivery.token), deferred(RETRY_WAIT, DeferScope::Job));
    let due = Some(kit.now().plus(RETRY_WAIT));
    assert_eq!(kit.tell(later).await, answer(State::Pending, due, Some(secs(5))), "the whole delivery");
    kit.advance(RETRY_WAIT);
    let delivery = kit.take(&queue).await;
    kit.advance(secs(9));
    let report = Report { duration: Some(ms(70)), ..Report::default() };
    let told = Settle::new(delivery.id, Some(delivery.token), done(), report).expect("valid");
    assert_eq!(
        kit.tell(Command::Settle(told)).await,
        settled(&queue, State::Completed, ms(70)),
        "as reported"
    );
    let history = kit.job(delivery.id).await.progress.history;
    let durations: Vec<_> = history.iter().map(|attempt| attempt.duration).collect();
    assert_eq!(durations, [Some(secs(3)), Some(secs(5)), Some(ms(70))], "the history has the same");
}

pub(super) async fn the_largest_result_and_the_longest_error_fit(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let error = "ß".repeat(REASON_MAX);
    kit.settle(&delivery, failed(&error)).await;
    kit.advance(secs(10));
    let result = json(&format!("\"{}\"", "x".repeat(RESULT_MAX - 2)));
    let delivery = kit.take(&queue).await;
    kit.settle(&delivery, Outcome::Done { result: Some(result.clone()), effect: None }).await;
    kit.crash().await;
    let progress = kit.job(delivery.id).await.progress;
    assert_eq!(progress.last_error(), Some(error.as_str()));
    assert!(progress.result == Some(result), "the whole result is kept");
}

pub(super) async fn without_a_token_the_current_delivery_is_settled(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let reply = kit.tell(settle(delivery.id, None, done())).await;
    assert_eq!(reply, settled(&queue, State::Completed, Millis::ZERO));
    assert_eq!(kit.job(delivery.id).await.progress.settled.map(|last| last.token), Some(delivery.token));
}

pub(super) async fn a_job_that_is_with_nobody_cannot_be_settled(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let pending = kit.new_job(plain(&queue)).await;
    for outcome in
        [done(), failed("boom"), rejected("never"), deferred(secs(1), DeferScope::Queue), Outcome::Received]
    {
        let refusal = kit.refused(settle(pending, None, outcome)).await;
        assert_eq!(refusal, Refusal::NotLeased { id: pending, state: State::Pending });
    }
    let cancelled = kit.cancelled(plain(&queue)).await;
    let refusal = kit.refused(settle(cancelled, None, done())).await;
    assert_eq!(refusal, Refusal::NotLeased { id: cancelled, state: State::Cancelled });
}

pub(super) async fn a_job_that_does_not_exist_is_refused(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let after = JobId::from_raw(delivery.id.raw() + 1).expect("an id");
    for id in [after, JobId::ZERO, JobId::from_raw(i64::MAX as u64).expect("an id")] {
        let commands = [
            settle(id, Some(delivery.token), done()),
            settle(id, None, failed("boom")),
            extend(id, Some(delivery.token), secs(60)),
            Command::Cancel(id),
            Command::Replay(id),
            Command::Bury { id, reason: "no use".into() },
            Command::Purge(id),
        ];
        for command in commands {
            assert_eq!(kit.refused(command).await, Refusal::JobNotFound(id));
        }
        assert_eq!(kit.find(id).await, None);
    }
}

pub(super) async fn a_waiting_job_can_be_cancelled(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.cancelled(plain(&queue)).await;
    let progress = kit.job(id).await.progress;
    assert_eq!((progress.state, progress.finished_at), (State::Cancelled, Some(kit.now())));
    assert_eq!(progress.attempts, 0);
    kit.expect_nothing(&queue, "a cancelled job is not delivered").await;
}

pub(super) async fn a_cancelled_delivery_cannot_be_settled(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.tell(Command::Cancel(delivery.id)).await;
    assert_eq!(kit.state(delivery.id).await, State::Cancelled);
    assert_eq!(kit.next_expiry().await, None, "its lease is void");
    for outcome in [done(), failed("boom"), deferred(secs(1), DeferScope::Queue), Outcome::Received] {
        let refusal = kit.refused(settle(delivery.id, Some(delivery.token), outcome)).await;
        assert_eq!(refusal, Refusal::StaleLease(delivery.id));
    }
    assert_eq!(
        kit.refused(extend(delivery.id, Some(delivery.token), secs(60))).await,
        Refusal::StaleLease(delivery.id)
    );
    kit.advance(secs(3600));
    assert_eq!(kit.rescue().await, []);
}

pub(super) async fn what_has_ended_cannot_be_cancelled(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ended = [
        (kit.completed(plain(&queue)).await, State::Completed),
        (kit.dead(plain(&queue)).await, State::Dead),
        (kit.cancelled(plain(&queue)).await, State::Cancelled),
    ];
    for (id, state) in ended {
        match kit.refused(Command::Cancel(id)).await {
            Refusal::WrongState { id: named, state: told, .. } => assert_eq!((named, told), (id, state)),
            other => panic!("cancelling a job that is {state:?} was refused as: {other}"),
        }
    }
}

pub(super) async fn the_history_keeps_the_newest_and_counts_the_rest(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(plain(&queue)).await;
    let rounds = HISTORY_MAX + 5;
    for n in 0..rounds {
        let delivery = kit.take(&queue).await;
        let reason = Some(n.to_string());
        let later =
            Outcome::Backpressure { retry_after: Some(secs(1)), scope: Some(DeferScope::Job), reason };
        kit.settle(&delivery, later).await;
        kit.advance(secs(1));
    }
    kit.crash().await;
    let progress = kit.job(id).await.progress;
    assert_eq!((progress.history.len(), progress.history_dropped), (HISTORY_MAX, 5));
    assert_eq!(progress.history[0].error.as_deref(), Some("5"), "the oldest went first");
    assert_eq!(progress.last_error(), Some("104"));
    assert_eq!(progress.deferrals as usize, rounds);
}

pub(super) async fn publish_lease_and_settle_in_one_go(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_jobs(&queue, 50).await;
    let deliveries = kit.lease(&queue, 50).await;
    let mut batch: Vec<_> = deliveries.iter().map(|d| settle(d.id, Some(d.token), done())).collect();
    batch.push(publish(plain(&queue)));
    for answer in &kit.apply(batch).await[..50] {
        assert_eq!(*answer, Ok(settled(&queue, State::Completed, Millis::ZERO)));
    }
    assert_eq!(kit.stats(&queue).await.completed, 50);
    assert_eq!(kit.lease(&queue, 10).await.len(), 1, "the job published with them is ready");
    kit.ask(publish(plain(&queue))).await.expect("and the store goes on");
}
