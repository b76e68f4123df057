//! Leases: who gets what, for how long, and what happens when they run out.

use semel_core::job::{AttemptStatus, Overrides};
use semel_core::lease::{LEASE_BATCH_MAX, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::publish::Draft;
use semel_core::queue::{AckTimeoutAction, Delivery as Channel, PUSH_GRACE, Push};
use semel_core::{Outcome, QueueName};

use super::kit::Kit;
use super::make::{
    LEASE, RETRY_WAIT, done, extend, ms, plain, push_in_ack_mode, queue_name, secs, settle, with_attempts,
};
use crate::command::{Command, Reply, Rescued};

pub(super) async fn jobs_go_out_in_publish_order(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mut ids = kit.new_jobs(&queue, 3).await;
    kit.advance(secs(1));
    ids.extend(kit.new_jobs(&queue, 2).await);
    assert_eq!(kit.lease_ids(&queue, 2).await, ids[..2]);
    assert_eq!(kit.lease_ids(&queue, 10).await, ids[2..]);
    kit.expect_nothing(&queue, "all are leased").await;
}

pub(super) async fn a_large_backlog_goes_out_whole_and_in_order(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.extend(kit.new_jobs(&queue, 1000).await);
        kit.advance(ms(1));
    }
    let mut got = Vec::new();
    while got.len() < ids.len() {
        let batch = kit.lease_ids(&queue, LEASE_BATCH_MAX).await;
        assert!(!batch.is_empty(), "{} of {} jobs went out", got.len(), ids.len());
        got.extend(batch);
    }
    assert!(got == ids, "three thousand jobs, in order, none twice");
    kit.expect_nothing(&queue, "all are leased").await;
}

pub(super) async fn workers_who_come_at_once_get_different_jobs(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ids = kit.new_jobs(&queue, 100).await;
    let request = LeaseRequest::new(queue.clone(), 7, None).expect("a valid request");
    let leases = kit.at_once(20, |store| {
        let request = request.clone();
        async move { store.lease(request).await.expect("the store leases") }
    });
    let mut got: Vec<_> = leases.await.into_iter().flatten().map(|delivery| delivery.id).collect();
    got.sort_unstable();
    assert_eq!(got, ids, "every job went to one of them");
}

pub(super) async fn a_delivery_carries_what_was_published(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(with_attempts(plain(&queue), 7)).await;
    let delivery = kit.take(&queue).await;
    assert_eq!(delivery.id, id);
    assert_eq!(delivery.spec, kit.job(id).await.spec);
    assert_eq!((delivery.attempt, delivery.max_attempts, delivery.deferrals), (1, 7, 0));
    assert!(!delivery.probe, "an open queue sends no probe");
    assert_eq!(delivery.deadline, kit.now().plus(LEASE));
}

pub(super) async fn a_leased_job_is_with_its_worker_alone(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    assert_eq!(kit.state(delivery.id).await, State::Processing);
    kit.expect_nothing(&queue, "the only job is leased").await;
    kit.advance(LEASE.times(100));
    kit.expect_nothing(&queue, "a lease that ran out keeps its job until it is rescued").await;
    assert_eq!(kit.state(delivery.id).await, State::Processing);
}

pub(super) async fn queues_do_not_mix(kit: &mut Kit) {
    let (orders, mails) = (kit.queue("orders").await, kit.queue("mails").await);
    let order = kit.new_job(plain(&orders)).await;
    let mail = kit.new_job(plain(&mails)).await;
    assert_eq!(kit.lease_ids(&mails, 10).await, [mail]);
    assert_eq!(kit.lease_ids(&orders, 10).await, [order]);
}

pub(super) async fn an_unknown_queue_has_no_jobs(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_job(plain(&queue)).await;
    let missing = queue_name("order");
    kit.expect_nothing(&missing, "there is no such queue").await;
    assert_eq!(kit.next_due(&missing).await, None);
    assert_eq!(kit.store().queue(&missing).await.expect("reads"), None, "asking does not make a queue");
}

pub(super) async fn the_lease_is_as_long_as_was_asked(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let overrides = Overrides { timeout: Some(secs(90)), ..Overrides::default() };
    let own_time = |queue: &QueueName| Draft { overrides: overrides.clone(), ..plain(queue) };
    let now = kit.now();
    kit.new_job(plain(&queue)).await;
    assert_eq!(kit.take(&queue).await.deadline, now.plus(LEASE), "the queue's");
    kit.new_job(own_time(&queue)).await;
    assert_eq!(kit.take(&queue).await.deadline, now.plus(secs(90)), "the job's own");
    kit.new_job(own_time(&queue)).await;
    let asked = kit.lease_for(&queue, 1, Some(secs(5))).await;
    assert_eq!(asked[0].deadline, now.plus(secs(5)), "the caller's");
}

pub(super) async fn a_push_lease_outlives_the_webhooks_timeout(kit: &mut Kit) {
    let push = Push { timeout: secs(20), ..push_in_ack_mode(secs(300)) };
    let queue = kit.queue_with("pushed", |config| config.delivery = Channel::Push(push)).await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    assert_eq!(delivery.deadline, kit.now().plus(secs(20)).plus(PUSH_GRACE));
}

pub(super) async fn a_rescue_takes_a_lease_at_its_deadline_and_not_before(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.advance(LEASE.minus(ms(1)));
    assert_eq!(kit.rescue().await, [], "a millisecond early there is nothing to rescue");
    assert_eq!(kit.state(delivery.id).await, State::Processing);
    kit.advance(ms(1));
    assert_eq!(kit.rescue().await, [delivery.id]);
    assert_eq!(kit.state(delivery.id).await, State::Pending);
    assert_eq!(kit.rescue().await, [], "once is enough");
}

pub(super) async fn a_rescued_delivery_is_a_counted_attempt(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let first = kit.publish_and_take(plain(&queue)).await;
    kit.advance(LEASE);
    kit.rescue().await;
    let progress = kit.job(first.id).await.progress;
    assert_eq!((progress.attempts, progress.due), (1, kit.now().plus(RETRY_WAIT)));
    assert_eq!(progress.history.len(), 1);
    assert_eq!((progress.history[0].status, progress.history[0].number), (AttemptStatus::Expired, 1));
    kit.expect_nothing(&queue, "it waits as after any failed attempt").await;
    kit.advance(RETRY_WAIT);
    assert_eq!(kit.take(&queue).await.attempt, 2);
}

pub(super) async fn a_rescue_buries_a_job_without_attempts(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(with_attempts(plain(&queue), 1)).await;
    kit.advance(LEASE);
    assert_eq!(kit.rescue().await, [delivery.id]);
    let progress = kit.job(delivery.id).await.progress;
    assert_eq!((progress.state, progress.attempts, progress.finished_at), (State::Dead, 1, Some(kit.now())));
}

pub(super) async fn a_rescue_takes_no_more_than_it_was_told(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ids = kit.new_jobs(&queue, 5).await;
    assert_eq!(kit.lease_ids(&queue, 5).await, ids);
    kit.advance(LEASE);
    let mut rescued = Vec::new();
    for (n, left) in [(2, true), (2, true), (1, false), (0, false)] {
        match kit.tell(Command::Rescue { limit: 2 }).await {
            Reply::Rescued { jobs, more } => {
                assert_eq!((jobs.len(), more), (n, left), "after {} of 5", rescued.len());
                rescued.extend(jobs.iter().map(|job| job.id));
            }
            other => panic!("a rescue was answered {other:?}"),
        }
    }
    rescued.sort();
    assert_eq!(rescued, ids, "each is rescued once");
}

pub(super) async fn a_rescue_leaves_live_leases_alone(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ids = kit.new_jobs(&queue, 2).await;
    let long = kit.lease_for(&queue, 1, Some(secs(3600))).await;
    let short = kit.lease_for(&queue, 1, Some(secs(1))).await;
    assert_eq!([long[0].id, short[0].id], ids[..]);
    kit.advance(secs(1));
    assert_eq!(kit.rescue().await, [short[0].id]);
    kit.ack(&long[0]).await;
}

pub(super) async fn a_rescue_tells_where_its_jobs_stand(kit: &mut Kit) {
    let (orders, mails) = (kit.queue("orders").await, kit.queue("mails").await);
    let retried = kit.publish_and_take(plain(&orders)).await.id;
    kit.advance(ms(1));
    let buried = kit.publish_and_take(with_attempts(plain(&mails), 1)).await.id;
    kit.advance(LEASE);
    let due = Some(kit.now().plus(RETRY_WAIT));
    let jobs = vec![
        Rescued { id: retried, queue: orders, state: State::Pending, due },
        Rescued { id: buried, queue: mails, state: State::Dead, due: None },
    ];
    assert_eq!(kit.tell(Command::Rescue { limit: 9 }).await, Reply::Rescued { jobs, more: false });
    let took = kit.job(buried).await.progress.history[0].duration;
    assert_eq!(took, Some(LEASE), "the history says how long the worker had it");
}

pub(super) async fn a_settle_after_the_deadline_but_before_the_rescue_counts(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.advance(LEASE.times(2));
    kit.ack(&delivery).await;
    assert_eq!(kit.rescue().await, [], "nobody else got it, so nothing was lost");
}

pub(super) async fn an_extended_lease_ends_later(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.advance(LEASE.minus(ms(1)));
    let until = kit.now().plus(secs(100));
    let reply = kit.tell(extend(delivery.id, Some(delivery.token), secs(100))).await;
    assert_eq!(reply, Reply::Extended(until));
    assert_eq!(kit.next_expiry().await, Some(until));
    kit.advance(secs(99));
    assert_eq!(kit.rescue().await, [], "the old deadline is gone");
    kit.advance(secs(1));
    assert_eq!(kit.rescue().await, [delivery.id], "the new one counts");
}

pub(super) async fn a_lease_can_be_cut_short(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.tell(extend(delivery.id, Some(delivery.token), secs(1))).await;
    assert_eq!(kit.next_expiry().await, Some(kit.now().plus(secs(1))), "the lease ends when its holder says");
    kit.advance(secs(1));
    assert_eq!(kit.rescue().await, [delivery.id]);
}

pub(super) async fn a_late_heartbeat_counts_until_the_rescue(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.advance(LEASE.plus(secs(1)));
    kit.tell(extend(delivery.id, Some(delivery.token), LEASE)).await;
    assert_eq!(kit.rescue().await, [], "nobody else has the job, so its holder may keep it");
    kit.advance(LEASE);
    assert_eq!(kit.rescue().await, [delivery.id]);
    let refusal = kit.refused(extend(delivery.id, Some(delivery.token), LEASE)).await;
    assert_eq!(refusal.code(), "stale_lease", "after the rescue it is too late");
}

pub(super) async fn the_next_expiry_is_that_of_the_earliest_lease(kit: &mut Kit) {
    let (orders, mails) = (kit.queue("orders").await, kit.queue("mails").await);
    assert_eq!(kit.next_expiry().await, None, "nothing is leased");
    let slow = kit.publish_and_take(plain(&orders)).await;
    kit.new_job(plain(&mails)).await;
    let quick = kit.lease_for(&mails, 1, Some(secs(2))).await;
    assert_eq!(kit.next_expiry().await, Some(quick[0].deadline));
    kit.ack(&quick[0]).await;
    assert_eq!(kit.next_expiry().await, Some(slow.deadline));
    kit.tell(settle(slow.id, Some(slow.token), done())).await;
    assert_eq!(kit.next_expiry().await, None);
}

pub(super) async fn next_due_is_never_late(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    assert_eq!(kit.next_due(&queue).await, None, "nothing is waiting");
    let mut waiting = Vec::new();
    for delay in [90, 5, 7200, 5] {
        let id = kit.new_job(Draft { delay: Some(secs(delay)), ..plain(&queue) }).await;
        waiting.push((kit.now().plus(secs(delay)), id));
    }
    while let Some(&(due, _)) = waiting.iter().min() {
        assert!(
            kit.next_due(&queue).await.is_some_and(|next| next <= due),
            "{} jobs are waiting",
            waiting.len()
        );
        kit.advance_to(due);
        let delivery = kit.take(&queue).await;
        waiting.retain(|(_, id)| *id != delivery.id);
        // Each job fails once, so that retries are waited for as well.
        if delivery.attempt == 1 {
            waiting.push((kit.fail(&delivery).await, delivery.id));
        } else {
            kit.ack(&delivery).await;
        }
    }
    assert_eq!(kit.next_due(&queue).await, None, "nothing is waiting any more");
}

pub(super) async fn next_due_is_not_after_what_is_ready(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_job(Draft { delay: Some(secs(60)), ..plain(&queue) }).await;
    let later = kit.now().plus(secs(60));
    assert!(kit.next_due(&queue).await.is_some_and(|due| due <= later), "the delayed job");
    kit.new_job(plain(&queue)).await;
    assert!(kit.next_due(&queue).await.is_some_and(|due| due <= kit.now()), "a job that is ready now");
}

pub(super) async fn a_received_job_has_the_ack_timeout(kit: &mut Kit) {
    let push = push_in_ack_mode(secs(300));
    let queue = kit.queue_with("pushed", |config| config.delivery = Channel::Push(push)).await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.advance(secs(3));
    assert_eq!(kit.settle(&delivery, Outcome::Received).await.0, State::AwaitingAck);
    assert_eq!(kit.next_expiry().await, Some(kit.now().plus(secs(300))), "counted from the receipt");
    kit.advance(secs(300));
    assert_eq!(kit.rescue().await, [delivery.id]);
    assert_eq!(kit.state(delivery.id).await, State::Pending, "by default a missing ack is a failed attempt");
}

pub(super) async fn a_missing_ack_buries_where_the_queue_says_so(kit: &mut Kit) {
    let push = Push { ack_timeout_action: AckTimeoutAction::Dead, ..push_in_ack_mode(secs(300)) };
    let queue = kit.queue_with("pushed", |config| config.delivery = Channel::Push(push)).await;
    let received = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&received, Outcome::Received).await;
    let silent = kit.publish_and_take(plain(&queue)).await;
    kit.advance(secs(300));
    assert_eq!(kit.rescue().await.len(), 2);
    assert_eq!(kit.state(received.id).await, State::Dead, "somebody must look at work that may be half done");
    assert_eq!(kit.state(silent.id).await, State::Pending, "a webhook that never answered is tried again");
}
