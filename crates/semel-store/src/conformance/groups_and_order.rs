//! Groups: with a limit of n at most n jobs of a group are open, they open in publish order, and 1 is strict order.

use semel_core::lease::Delivery;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::DeferScope;
use semel_core::publish::Draft;
use semel_core::{JobId, Outcome};

use super::kit::Kit;
use super::make::{
    LEASE, RETRY_WAIT, deferred, failed, grouped, plain, publish, published, rejected, secs, with_attempts,
};
use crate::command::Command;

async fn limited(kit: &Kit, n: u32) -> QueueName {
    kit.queue_with("orders", |config| config.group_concurrency = Some(n)).await
}

async fn publish_all(kit: &Kit, queue: &QueueName, groups: &[&str]) -> Vec<JobId> {
    let batch = groups.iter().map(|name| publish(grouped(queue, name))).collect();
    kit.apply(batch).await.iter().map(|answer| published(answer).id).collect()
}

pub(super) async fn a_limit_of_one_is_strict_order(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a"; 4]).await;
    assert!(kit.job(ids[0]).await.spec.gated);
    for id in ids {
        let out = kit.lease(&queue, 10).await;
        assert_eq!(out.iter().map(|d| d.id).collect::<Vec<_>>(), [id], "one at a time, in order");
        kit.expect_nothing(&queue, "the next waits for its end").await;
        kit.ack(&out[0]).await;
    }
}

pub(super) async fn groups_do_not_wait_for_each_other(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a", "a", "b", "b", "c"]).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[0], ids[2], ids[4]], "the first of each group");
}

pub(super) async fn jobs_without_a_group_wait_for_nobody(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a", "a"]).await;
    let free = kit.new_jobs(&queue, 3).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[0], free[0], free[1], free[2]]);
}

pub(super) async fn the_same_group_in_another_queue_is_another_group(kit: &mut Kit) {
    let orders = limited(kit, 1).await;
    let mails = kit.queue_with("mails", |config| config.group_concurrency = Some(1)).await;
    let order = publish_all(kit, &orders, &["a"]).await;
    let mail = publish_all(kit, &mails, &["a"]).await;
    assert_eq!(kit.lease_ids(&orders, 10).await, order);
    assert_eq!(kit.lease_ids(&mails, 10).await, mail);
}

pub(super) async fn nothing_overtakes_a_job_that_is_tried_again(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a", "a"]).await;
    let ways = [failed("boom"), deferred(RETRY_WAIT, DeferScope::Job)];
    for outcome in ways {
        let first = kit.take(&queue).await;
        assert_eq!(first.id, ids[0]);
        kit.settle(&first, outcome.clone()).await;
        kit.expect_nothing(&queue, "the group waits with its first job").await;
        kit.advance(RETRY_WAIT);
    }
    kit.take(&queue).await;
    kit.advance(LEASE);
    assert_eq!(kit.rescue().await, [ids[0]]);
    kit.expect_nothing(&queue, "also while it waits after an expired lease").await;
    kit.advance(RETRY_WAIT);
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[0]]);
}

pub(super) async fn a_delayed_job_keeps_its_place(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let delayed = kit.new_job(Draft { delay: Some(secs(60)), ..grouped(&queue, "a") }).await;
    let next = kit.new_job(grouped(&queue, "a")).await;
    kit.expect_nothing(&queue, "the first of the group waits for its time").await;
    kit.advance(secs(60));
    let delivery = kit.take(&queue).await;
    assert_eq!(delivery.id, delayed);
    kit.ack(&delivery).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [next]);
}

pub(super) async fn every_end_opens_the_next(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a"; 6]).await;
    let completed = kit.take(&queue).await;
    kit.ack(&completed).await;
    let dead = kit.take(&queue).await;
    kit.reject(&dead).await;
    kit.tell(Command::Cancel(ids[2])).await;
    let cancelled_while_leased = kit.take(&queue).await;
    assert_eq!(cancelled_while_leased.id, ids[3], "the third was cancelled before it was leased");
    kit.tell(Command::Cancel(ids[3])).await;
    let tried_out = kit.take(&queue).await;
    assert_eq!(tried_out.id, ids[4]);
    for _ in 0..2 {
        kit.advance(LEASE);
        kit.rescue().await;
        kit.advance(RETRY_WAIT);
        kit.take(&queue).await;
    }
    kit.advance(LEASE);
    assert_eq!(kit.rescue().await, [ids[4]]);
    assert_eq!(kit.state(ids[4]).await, State::Dead);
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[5]]);
}

pub(super) async fn cancelling_a_job_that_is_not_open_opens_nothing(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a"; 4]).await;
    let first = kit.take(&queue).await;
    kit.tell(Command::Cancel(ids[1])).await;
    kit.expect_nothing(&queue, "the first is still open").await;
    kit.ack(&first).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[2]], "the cancelled one is skipped, and only one opens");
}

pub(super) async fn a_limit_of_two_opens_two(kit: &mut Kit) {
    let queue = limited(kit, 2).await;
    let ids = publish_all(kit, &queue, &["a"; 5]).await;
    let out = kit.lease(&queue, 10).await;
    assert_eq!([out[0].id, out[1].id], ids[..2]);
    assert_eq!(out.len(), 2);
    kit.ack(&out[1]).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[2]]);
    kit.fail(&out[0]).await;
    kit.expect_nothing(&queue, "a job that waits for its retry is open").await;
    kit.tell(Command::Cancel(ids[0])).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[3]]);
}

pub(super) async fn without_a_limit_a_group_is_a_label(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ids = publish_all(kit, &queue, &["a"; 3]).await;
    assert!(!kit.job(ids[0]).await.spec.gated);
    assert_eq!(kit.lease_ids(&queue, 10).await, ids);
}

pub(super) async fn a_limit_gates_what_is_published_under_it(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let free = publish_all(kit, &queue, &["a"; 2]).await;
    limited(kit, 1).await;
    let gated = publish_all(kit, &queue, &["a"; 2]).await;
    assert!(!kit.job(free[1]).await.spec.gated && kit.job(gated[0]).await.spec.gated);
    assert_eq!(
        kit.lease_ids(&queue, 10).await,
        [free[0], free[1], gated[0]],
        "earlier jobs neither wait nor count"
    );
}

pub(super) async fn a_raised_limit_opens_more_at_once(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a"; 4]).await;
    let mut out = kit.lease(&queue, 10).await;
    limited(kit, 3).await;
    out.extend(kit.lease(&queue, 10).await);
    assert_eq!(out.iter().map(|d| d.id).collect::<Vec<_>>(), ids[..3]);
    limited(kit, 1).await;
    kit.ack(&out[0]).await;
    kit.ack(&out[1]).await;
    kit.expect_nothing(&queue, "a lowered limit takes nothing back, and opens nothing while one is open")
        .await;
    kit.ack(&out[2]).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[3]]);
}

pub(super) async fn a_limit_that_is_taken_away_opens_all_at_once(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a"; 4]).await;
    kit.queue("orders").await;
    assert_eq!(kit.lease_ids(&queue, 10).await, ids, "nobody waits for a limit that is not there");
}

pub(super) async fn jobs_open_in_publish_order_whatever_their_priority(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let first = kit.new_job(grouped(&queue, "a")).await;
    let urgent = kit.new_job(Draft { priority: 100, ..grouped(&queue, "a") }).await;
    let delivery = kit.take(&queue).await;
    assert_eq!(delivery.id, first, "order in a group is stronger than priority");
    kit.ack(&delivery).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [urgent]);
}

pub(super) async fn a_crash_in_the_middle_keeps_the_order(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a", "b", "a", "b", "a"]).await;
    let out = kit.lease(&queue, 10).await;
    assert_eq!(out.len(), 2);
    kit.ack(&out[0]).await;
    kit.crash().await;
    let out = kit.lease(&queue, 10).await;
    // Both groups have one open job: b's first, delivered again, and a's second.
    assert_eq!(out.iter().map(|d| d.id).collect::<Vec<_>>(), [ids[1], ids[2]]);
    kit.ack(&out[1]).await;
    kit.fail(&out[0]).await;
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[4]], "b waits for its retry, across the crash");
}

pub(super) async fn a_crash_keeps_a_limit_of_two(kit: &mut Kit) {
    let queue = limited(kit, 2).await;
    let ids = publish_all(kit, &queue, &["a"; 5]).await;
    let out = kit.lease(&queue, 10).await;
    kit.fail(&out[0]).await;
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[1]], "the first waits for its retry and is open");
    kit.advance(RETRY_WAIT);
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[0]]);
    kit.expect_nothing(&queue, "two are open").await;
}

pub(super) async fn order_holds_through_failures_and_crashes(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let batch = (0..6).map(|_| publish(with_attempts(grouped(&queue, "a"), 9))).collect();
    let ids: Vec<_> = kit.apply(batch).await.iter().map(|answer| published(answer).id).collect();
    let (mut ended, mut step) = (Vec::new(), 0);
    while ended.len() < ids.len() {
        let Some(delivery) = kit.lease(&queue, 10).await.pop() else {
            kit.advance(RETRY_WAIT);
            continue;
        };
        // Every job fails once, is lost in a crash once and is deferred once before it is done.
        match step % 4 {
            0 => drop(kit.fail(&delivery).await),
            1 => kit.crash().await,
            2 => drop(kit.settle(&delivery, deferred(secs(1), DeferScope::Job)).await),
            _ => {
                kit.ack(&delivery).await;
                ended.push(delivery.id);
            }
        }
        step += 1;
    }
    assert_eq!(ended, ids, "they end in the order they were published");
}

pub(super) async fn a_replayed_dead_letter_joins_the_end_of_its_group(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a"; 3]).await;
    let first = kit.take(&queue).await;
    kit.settle(&first, rejected("never")).await;
    kit.advance(secs(1));
    kit.tell(Command::Replay(ids[0])).await;
    for (n, id) in [ids[1], ids[2], ids[0]].into_iter().enumerate() {
        let out: Vec<Delivery> = kit.lease(&queue, 10).await;
        assert_eq!(out.iter().map(|d| d.id).collect::<Vec<_>>(), [id], "turn {n}");
        kit.ack(&out[0]).await;
    }
}

pub(super) async fn a_replay_finds_its_place_again_after_a_crash(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let ids = publish_all(kit, &queue, &["a"; 2]).await;
    let first = kit.take(&queue).await;
    kit.reject(&first).await;
    kit.advance(secs(1));
    kit.tell(Command::Replay(ids[0])).await;
    kit.crash().await;
    let second = kit.take(&queue).await;
    assert_eq!(second.id, ids[1], "the replayed job stays behind those that were waiting");
    kit.expect_nothing(&queue, "one at a time").await;
    kit.ack(&second).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [ids[0]]);
}

pub(super) async fn a_replayed_job_that_is_tried_again_keeps_its_place(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let replayed = kit.dead(grouped(&queue, "a")).await;
    kit.advance(secs(1));
    kit.tell(Command::Replay(replayed)).await;
    let later = kit.new_job(grouped(&queue, "a")).await;
    let delivery = kit.take(&queue).await;
    kit.fail(&delivery).await;
    for when in ["before a crash", "after a crash"] {
        kit.expect_nothing(&queue, &format!("{when}: the group waits with the replayed job")).await;
        kit.crash().await;
    }
    kit.advance(RETRY_WAIT);
    let delivery = kit.take(&queue).await;
    assert_eq!(delivery.id, replayed);
    kit.ack(&delivery).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [later]);
}

pub(super) async fn a_replay_with_room_opens_at_once(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    let id = kit.dead(grouped(&queue, "a")).await;
    kit.tell(Command::Replay(id)).await;
    let later = kit.new_job(grouped(&queue, "a")).await;
    let delivery = kit.take(&queue).await;
    assert_eq!(delivery.id, id);
    kit.settle(&delivery, Outcome::Received).await;
    kit.expect_nothing(&queue, "and counts as open again").await;
    kit.ack(&delivery).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [later]);
}

pub(super) async fn plain_jobs_pass_a_long_group(kit: &mut Kit) {
    let queue = limited(kit, 1).await;
    publish_all(kit, &queue, &["a"; 500]).await;
    let free = kit.new_job(plain(&queue)).await;
    let out = kit.lease_ids(&queue, 10).await;
    assert_eq!(out.len(), 2, "one of the group, and the one that waits for nobody");
    assert_eq!(out[1], free);
}
