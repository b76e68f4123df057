//! The gate of a queue: rate, concurrency and breaker decide how many jobs may go out.

use semel_core::breaker::Breaker;
use semel_core::lease::Delivery;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::{DeferScope, Outcome};
use semel_core::queue::{BreakerConfig, RateLimit};
use semel_core::time::Millis;

use super::kit::Kit;
use super::make::{LEASE, RETRY_WAIT, deferred, failed, ms, plain, rejected, secs};
use crate::command::Command;

const COOLDOWN: Millis = secs(60);

async fn with_concurrency(kit: &Kit, limit: u32) -> QueueName {
    kit.queue_with("orders", |config| config.concurrency = Some(limit)).await
}

async fn with_rate(kit: &Kit, count: u32, burst: u32) -> QueueName {
    kit.queue_with("orders", |config| config.rate = Some(RateLimit { count, per: secs(10), burst })).await
}

/// A queue of ten jobs whose breaker opens after two failures in a row.
async fn with_breaker(kit: &Kit) -> QueueName {
    let breaker = BreakerConfig { failures: 2, cooldown: COOLDOWN };
    let queue = kit.queue_with("orders", |config| config.breaker = Some(breaker)).await;
    kit.new_jobs(&queue, 10).await;
    queue
}

async fn fail_in_a_row(kit: &Kit, queue: &QueueName, times: u32) -> Vec<Delivery> {
    let out = kit.lease(queue, times).await;
    for delivery in &out {
        kit.settle(delivery, failed("down")).await;
    }
    out
}

async fn probe(kit: &Kit, queue: &QueueName) -> Delivery {
    let mut out = kit.lease(queue, 10).await;
    assert_eq!(out.iter().map(|d| d.probe).collect::<Vec<_>>(), [true], "exactly one probe goes out");
    kit.expect_nothing(queue, "nothing follows until the probe has ended").await;
    out.remove(0)
}

pub(super) async fn no_more_are_in_flight_than_the_queue_allows(kit: &mut Kit) {
    let queue = with_concurrency(kit, 3).await;
    let ids = kit.new_jobs(&queue, 6).await;
    let out = kit.lease(&queue, 2).await;
    assert_eq!(out.len(), 2);
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[2]], "one slot is left");
    kit.expect_nothing(&queue, "three are out").await;
    kit.ack(&out[0]).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[3]], "an ack frees a slot");
}

pub(super) async fn every_end_of_a_delivery_frees_its_slot(kit: &mut Kit) {
    let queue = with_concurrency(kit, 1).await;
    let ids = kit.new_jobs(&queue, 6).await;
    for (n, outcome) in
        [failed("x"), rejected("x"), deferred(secs(900), DeferScope::Job)].into_iter().enumerate()
    {
        let delivery = kit.take(&queue).await;
        assert_eq!(delivery.id, ids[n]);
        kit.settle(&delivery, outcome).await;
    }
    let cancelled = kit.take(&queue).await;
    assert_eq!(cancelled.id, ids[3]);
    kit.tell(Command::Cancel(cancelled.id)).await;
    let expired = kit.take(&queue).await;
    assert_eq!(expired.id, ids[4]);
    kit.advance(LEASE);
    kit.expect_nothing(&queue, "a lease that ran out keeps its slot until the rescue").await;
    assert_eq!(kit.rescue().await, [expired.id]);
    assert_eq!(kit.take(&queue).await.id, ids[5], "the fresh job was due before the retry");
    kit.expect_nothing(&queue, "one at a time").await;
}

pub(super) async fn a_received_job_keeps_its_slot(kit: &mut Kit) {
    let queue = with_concurrency(kit, 1).await;
    kit.new_jobs(&queue, 2).await;
    let delivery = kit.take(&queue).await;
    kit.settle(&delivery, Outcome::Received).await;
    kit.expect_nothing(&queue, "the worker is still at it").await;
    kit.ack(&delivery).await;
    kit.take(&queue).await;
}

pub(super) async fn a_crash_frees_every_slot(kit: &mut Kit) {
    let queue = with_concurrency(kit, 2).await;
    let ids = kit.new_jobs(&queue, 3).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, ids[..2]);
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, ids[..2], "leases are gone, and so is what they held");
    kit.expect_nothing(&queue, "the limit stays").await;
}

pub(super) async fn a_changed_concurrency_counts_at_once(kit: &mut Kit) {
    let queue = with_concurrency(kit, 1).await;
    kit.new_jobs(&queue, 9).await;
    let mut out = kit.lease(&queue, 10).await;
    with_concurrency(kit, 3).await;
    out.extend(kit.lease(&queue, 10).await);
    assert_eq!(out.len(), 3);
    with_concurrency(kit, 2).await;
    kit.ack(&out[0]).await;
    kit.expect_nothing(&queue, "two are still out").await;
    kit.ack(&out[1]).await;
    assert_eq!(kit.lease(&queue, 10).await.len(), 1);
}

pub(super) async fn a_rate_lets_out_a_burst_and_then_one_by_one(kit: &mut Kit) {
    let queue = with_rate(kit, 10, 3).await;
    kit.new_jobs(&queue, 9).await;
    assert_eq!(kit.lease(&queue, 10).await.len(), 3, "a burst");
    kit.expect_nothing(&queue, "the rate is used up").await;
    kit.advance(secs(1).minus(ms(1)));
    kit.expect_nothing(&queue, "ten in ten seconds is one a second").await;
    kit.advance(ms(1));
    assert_eq!(kit.lease(&queue, 10).await.len(), 1);
    kit.advance(secs(2));
    assert_eq!(kit.lease(&queue, 10).await.len(), 2);
    kit.advance(secs(3600));
    assert_eq!(kit.lease(&queue, 10).await.len(), 3, "a quiet hour does not save up more than a burst");
}

pub(super) async fn a_rate_counts_deliveries_and_not_ends(kit: &mut Kit) {
    let queue = with_rate(kit, 10, 1).await;
    kit.new_jobs(&queue, 3).await;
    let first = kit.take(&queue).await;
    kit.ack(&first).await;
    kit.expect_nothing(&queue, "done quickly is still delivered").await;
    assert!(
        kit.next_due(&queue).await.is_some_and(|due| due <= kit.now().plus(secs(1))),
        "next_due is not late"
    );
    kit.advance(secs(1));
    kit.take(&queue).await;
}

pub(super) async fn asking_for_nothing_uses_no_rate(kit: &mut Kit) {
    let queue = with_rate(kit, 10, 2).await;
    for _ in 0..5 {
        kit.expect_nothing(&queue, "there are no jobs").await;
    }
    kit.new_jobs(&queue, 3).await;
    assert_eq!(kit.lease(&queue, 1).await.len(), 1);
    assert_eq!(kit.lease(&queue, 10).await.len(), 1, "only what went out was counted");
}

pub(super) async fn a_breaker_opens_after_failures_in_a_row(kit: &mut Kit) {
    let queue = with_breaker(kit).await;
    fail_in_a_row(kit, &queue, 1).await;
    let well = kit.take(&queue).await;
    kit.ack(&well).await;
    fail_in_a_row(kit, &queue, 1).await;
    assert_eq!(kit.lease(&queue, 1).await.len(), 1, "a success in between starts the count anew");
    fail_in_a_row(kit, &queue, 1).await;
    kit.expect_nothing(&queue, "two in a row open it").await;
    kit.advance(COOLDOWN.minus(ms(1)));
    kit.expect_nothing(&queue, "for its whole cooldown").await;
}

pub(super) async fn an_open_breaker_burns_no_attempts(kit: &mut Kit) {
    let queue = with_breaker(kit).await;
    let out = fail_in_a_row(kit, &queue, 2).await;
    kit.advance(RETRY_WAIT.times(2));
    kit.expect_nothing(&queue, "retries wait as well").await;
    for delivery in out {
        let progress = kit.job(delivery.id).await.progress;
        assert_eq!((progress.state, progress.attempts), (State::Pending, 1));
    }
}

pub(super) async fn a_breaker_lets_one_probe_out_after_its_cooldown(kit: &mut Kit) {
    let queue = with_breaker(kit).await;
    fail_in_a_row(kit, &queue, 2).await;
    assert!(
        kit.next_due(&queue).await.is_some_and(|due| due <= kit.now().plus(COOLDOWN)),
        "next_due is not late"
    );
    kit.advance(COOLDOWN);
    let delivery = probe(kit, &queue).await;
    kit.ack(&delivery).await;
    let rest = kit.lease(&queue, 10).await;
    assert_eq!(rest.len(), 9, "a success closes it");
    assert!(rest.iter().all(|d| !d.probe));
}

pub(super) async fn a_probe_that_fails_opens_the_breaker_again(kit: &mut Kit) {
    let queue = with_breaker(kit).await;
    fail_in_a_row(kit, &queue, 2).await;
    kit.advance(COOLDOWN);
    let delivery = probe(kit, &queue).await;
    kit.settle(&delivery, failed("still down")).await;
    kit.advance(COOLDOWN.minus(ms(1)));
    kit.expect_nothing(&queue, "another whole cooldown").await;
    kit.advance(ms(1));
    probe(kit, &queue).await;
}

pub(super) async fn a_breaker_stays_open_across_a_crash(kit: &mut Kit) {
    let queue = with_breaker(kit).await;
    fail_in_a_row(kit, &queue, 2).await;
    kit.crash().await;
    kit.advance(COOLDOWN.minus(ms(1)));
    kit.expect_nothing(&queue, "a restart of the queue does not mend the endpoint").await;
    kit.advance(ms(1));
    probe(kit, &queue).await;
    kit.crash().await;
    let delivery = probe(kit, &queue).await;
    kit.ack(&delivery).await;
    assert_eq!(kit.lease(&queue, 10).await.len(), 9, "the probe that died with the process held nothing up");
}

pub(super) async fn only_failures_open_a_breaker(kit: &mut Kit) {
    let queue = with_breaker(kit).await;
    let out = kit.lease(&queue, 6).await;
    kit.settle(&out[0], rejected("bad job")).await;
    kit.settle(&out[1], rejected("bad job")).await;
    kit.settle(&out[2], deferred(secs(1), DeferScope::Job)).await;
    kit.tell(Command::Cancel(out[3].id)).await;
    kit.advance(LEASE);
    assert_eq!(kit.rescue().await.len(), 2, "two leases ran out");
    let record = kit.store().queue(&queue).await.expect("reads").expect("exists");
    assert_eq!(
        record.gate.breaker,
        Breaker::default(),
        "rejections, deferrals and lost leases say nothing of the endpoint"
    );
    assert!(!kit.lease(&queue, 10).await.is_empty());
}

pub(super) async fn a_breaker_is_one_queues_own(kit: &mut Kit) {
    let queue = with_breaker(kit).await;
    let other = kit.queue("mails").await;
    fail_in_a_row(kit, &queue, 2).await;
    kit.expect_nothing(&queue, "this one is open").await;
    kit.completed(plain(&other)).await;
}

pub(super) async fn the_strictest_of_several_limits_counts(kit: &mut Kit) {
    let queue = kit
        .queue_with("orders", |config| {
            config.concurrency = Some(4);
            config.rate = Some(RateLimit { count: 10, per: secs(10), burst: 3 });
            config.group_concurrency = Some(1);
        })
        .await;
    let group = |n: u32| super::make::grouped(&queue, if n < 3 { "a" } else { "b" });
    for n in 0..4 {
        kit.new_job(group(n)).await;
    }
    assert_eq!(kit.lease(&queue, 10).await.len(), 2, "one of each group");
    kit.new_jobs(&queue, 9).await;
    assert_eq!(kit.lease(&queue, 10).await.len(), 1, "what is left of the burst");
    kit.advance(secs(60));
    assert_eq!(kit.lease(&queue, 10).await.len(), 1, "what is left of the slots");
    kit.tell(Command::Pause { queue: queue.clone(), paused: true }).await;
    kit.advance(secs(60));
    kit.expect_nothing(&queue, "paused").await;
}

pub(super) async fn what_the_gate_holds_back_is_not_lost(kit: &mut Kit) {
    let queue = with_rate(kit, 1000, 7).await;
    let ids = kit.new_jobs(&queue, 100).await;
    let mut got = kit.lease_ids(&queue, 10).await;
    while got.len() < 100 {
        let next = kit.now().plus(ms(10));
        assert!(
            kit.next_due(&queue).await.is_some_and(|due| due <= next),
            "a thousand in ten seconds is one in ten ms"
        );
        kit.advance_to(next);
        got.push(kit.take(&queue).await.id);
    }
    assert_eq!(got, ids, "each goes out once, in order");
}
