//! Lists: newest first, filtered, and walked along cursors while the store goes on.

use std::collections::BTreeSet;

use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::{Effect, Outcome, Receipt};
use semel_core::publish::Draft;
use semel_core::time::Timestamp;
use semel_core::{JobId, Millis};

use super::kit::Kit;
use super::make::{group, grouped, key, keyed, ms, plain, queue_name, secs};
use crate::command::Command;
use crate::error::StoreError;
use crate::query::{Cursor, JobQuery, PAGE_MAX};

async fn ids(kit: &Kit, query: JobQuery) -> Vec<JobId> {
    kit.list(query).await.iter().map(|job| job.id).collect()
}

fn in_queue(queue: &QueueName) -> JobQuery {
    JobQuery { queue: Some(queue.clone()), ..JobQuery::default() }
}

fn newest_first(mut ids: Vec<JobId>) -> Vec<JobId> {
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids
}

pub(super) async fn an_empty_store_has_an_empty_page(kit: &mut Kit) {
    let page = kit.store().jobs(JobQuery::default()).await.expect("lists");
    assert_eq!((page.items, page.next), (vec![], None));
    kit.queue("orders").await;
    assert_eq!(ids(kit, in_queue(&queue_name("nowhere"))).await, []);
}

pub(super) async fn jobs_are_listed_newest_first(kit: &mut Kit) {
    let (orders, mails) = (kit.queue("orders").await, kit.queue("mails").await);
    let mut all = Vec::new();
    for n in 0..6 {
        all.push(kit.new_job(plain(if n % 2 == 0 { &orders } else { &mails })).await);
        kit.advance(ms(n));
    }
    assert_eq!(ids(kit, JobQuery::default()).await, newest_first(all.clone()));
    assert_eq!(ids(kit, in_queue(&mails)).await, [all[5], all[3], all[1]]);
}

pub(super) async fn a_listed_job_is_the_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(keyed(&queue, "order-1")).await;
    kit.fail(&delivery).await;
    kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!(kit.list(JobQuery::default()).await, [kit.job(delivery.id).await]);
}

pub(super) async fn jobs_are_found_by_state(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let processing = kit.publish_and_take(plain(&queue)).await.id;
    let received = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&received, semel_core::Outcome::Received).await;
    let found = [
        (State::Processing, processing),
        (State::AwaitingAck, received.id),
        (State::Completed, kit.completed(plain(&queue)).await),
        (State::Dead, kit.dead(plain(&queue)).await),
        (State::Cancelled, kit.cancelled(plain(&queue)).await),
        (State::Pending, kit.new_job(plain(&queue)).await),
    ];
    for (state, id) in found {
        assert_eq!(ids(kit, JobQuery { state: Some(state), ..JobQuery::default() }).await, [id], "{state:?}");
        assert_eq!(
            ids(kit, JobQuery { state: Some(state), ..in_queue(&queue) }).await,
            [id],
            "{state:?} in the queue"
        );
    }
}

pub(super) async fn jobs_are_found_by_key_all_of_them(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.window = secs(10)).await;
    let other = kit.queue("mails").await;
    let old = kit.completed(keyed(&queue, "order-1")).await;
    kit.advance(secs(10));
    let new = kit.new_job(keyed(&queue, "order-1")).await;
    let mail = kit.new_job(keyed(&other, "order-1")).await;
    kit.new_job(keyed(&queue, "order-10")).await;
    let by_key = JobQuery { key: Some(key("order-1")), ..JobQuery::default() };
    assert_eq!(
        ids(kit, by_key.clone()).await,
        [mail, new, old],
        "in every queue, whether or not they still hold it"
    );
    assert_eq!(ids(kit, JobQuery { queue: Some(queue), ..by_key }).await, [new, old]);
}

pub(super) async fn jobs_are_found_by_group(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let first = kit.new_job(grouped(&queue, "tenant 42")).await;
    kit.new_job(grouped(&queue, "tenant 4")).await;
    kit.new_job(plain(&queue)).await;
    let second = kit.new_job(grouped(&queue, "tenant 42")).await;
    let query = JobQuery { group: Some(group("tenant 42")), ..JobQuery::default() };
    assert_eq!(ids(kit, query).await, [second, first]);
}

pub(super) async fn jobs_are_found_by_metadata(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let both = vec![pair("tenant", "42"), pair("plan", "pro")];
    let pro = kit.new_job(Draft { metadata: both.clone(), ..plain(&queue) }).await;
    let basic = kit.new_job(Draft { metadata: vec![pair("tenant", "42")], ..plain(&queue) }).await;
    kit.new_job(Draft { metadata: vec![pair("tenant", "421"), pair("42", "tenant")], ..plain(&queue) }).await;
    let by = |metadata| JobQuery { metadata, ..JobQuery::default() };
    assert_eq!(ids(kit, by(vec![pair("tenant", "42")])).await, [basic, pro]);
    assert_eq!(ids(kit, by(both.into_iter().rev().collect())).await, [pro], "all entries, in any order");
    assert_eq!(ids(kit, by(vec![pair("tenant", "' OR '1'='1")])).await, []);
    assert_eq!(ids(kit, by(vec![pair("tenant", "4%")])).await, []);
}

pub(super) async fn jobs_are_found_by_time(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let start = kit.now();
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(kit.new_job(plain(&queue)).await);
        kit.advance(secs(1));
    }
    let at = |n: u64| Some(start.plus(secs(n)));
    let between = |from, to| JobQuery { from, to, ..JobQuery::default() };
    assert_eq!(ids(kit, between(at(1), at(3))).await, [all[2], all[1]], "from is in, to is not");
    assert_eq!(ids(kit, between(at(3), None)).await, [all[4], all[3]]);
    assert_eq!(ids(kit, between(None, at(1))).await, [all[0]]);
    assert_eq!(ids(kit, between(at(2), at(2))).await, []);
    assert_eq!(ids(kit, between(None, Some(Timestamp::from_millis(u64::MAX)))).await.len(), 5);
    assert_eq!(ids(kit, between(Some(Timestamp::from_millis(u64::MAX)), None)).await, []);
    assert_eq!(ids(kit, between(Some(Timestamp::from_millis(0)), Some(Timestamp::from_millis(1)))).await, []);
}

pub(super) async fn filters_are_combined(kit: &mut Kit) {
    let (orders, mails) = (kit.queue("orders").await, kit.queue("mails").await);
    let wanted = kit.dead(Draft { group: Some(group("a")), ..keyed(&orders, "k") }).await;
    kit.dead(Draft { group: Some(group("b")), ..plain(&orders) }).await;
    kit.dead(grouped(&mails, "a")).await;
    kit.new_job(grouped(&orders, "a")).await;
    let query = JobQuery {
        state: Some(State::Dead),
        key: Some(key("k")),
        group: Some(group("a")),
        from: Some(kit.now()),
        to: Some(kit.now().plus(ms(1))),
        ..in_queue(&orders)
    };
    assert_eq!(ids(kit, query).await, [wanted]);
}

pub(super) async fn a_walk_meets_every_job_once(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.extend(kit.new_jobs(&queue, 11).await);
        kit.advance(ms(1));
    }
    let all = newest_first(all);
    for limit in [1, 7, 54, 55, 56, PAGE_MAX] {
        assert_eq!(ids(kit, JobQuery { limit, ..JobQuery::default() }).await, all, "pages of {limit}");
        assert_eq!(
            ids(kit, JobQuery { limit, ..in_queue(&queue) }).await,
            all,
            "pages of {limit} of the queue"
        );
    }
}

pub(super) async fn a_walk_with_a_narrow_filter_ends_and_finds_all(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mut wanted = Vec::new();
    for round in 0..4 {
        kit.new_jobs(&queue, 300).await;
        wanted.push(kit.new_job(grouped(&queue, "rare")).await);
        kit.advance(ms(round));
    }
    let query = JobQuery { group: Some(group("rare")), limit: 2, ..in_queue(&queue) };
    assert_eq!(ids(kit, query).await, newest_first(wanted), "however many pages that takes");
}

/// Walks in pages of three and lets `between` change the store after every page.
async fn walk(kit: &Kit, query: JobQuery, mut between: impl AsyncFnMut(&Kit)) -> Vec<JobId> {
    let (mut met, mut query) = (Vec::new(), JobQuery { limit: 3, ..query });
    loop {
        let page = kit.store().jobs(query.clone()).await.expect("lists");
        met.extend(page.items.iter().map(|job| job.id));
        let Some(next) = page.next else { break };
        assert!(met.len() < 1000, "the walk ends");
        // A cursor goes out to a client as text and comes back as text.
        query.cursor = Some(next.to_string().parse::<Cursor>().expect("a cursor reads back"));
        between(kit).await;
    }
    let once: BTreeSet<_> = met.iter().copied().collect();
    assert_eq!(once.len(), met.len(), "no job is met twice");
    met
}

pub(super) async fn a_walk_goes_on_while_jobs_are_published(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let start = kit.new_jobs(&queue, 10).await;
    let met = walk(kit, JobQuery::default(), async |kit: &Kit| {
        kit.new_jobs(&queue, 2).await;
        kit.advance(ms(1));
    })
    .await;
    assert!(start.iter().all(|id| met.contains(id)), "every job there from the start is met: {met:?}");
}

pub(super) async fn a_walk_goes_on_while_jobs_change_and_end(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let start = kit.new_jobs(&queue, 10).await;
    let met = walk(kit, in_queue(&queue), async |kit: &Kit| {
        let out = kit.lease(&queue, 2).await;
        if let [first, .., last] = &out[..] {
            kit.ack(first).await;
            kit.fail(last).await;
        }
    })
    .await;
    assert_eq!(met, newest_first(start), "a job is met whatever becomes of it meanwhile");
}

pub(super) async fn a_walk_goes_on_across_prune_and_crash(kit: &mut Kit) {
    let queue = kit.queue_with("orders", |config| config.retention.completed = Millis::ZERO).await;
    let start = kit.new_jobs(&queue, 4).await;
    for delivery in kit.lease(&queue, 2).await {
        kit.ack(&delivery).await;
    }
    let first = kit.store().jobs(JobQuery { limit: 1, ..JobQuery::default() }).await.expect("lists");
    assert_eq!(first.items[0].id, start[3]);
    kit.prune().await;
    kit.crash().await;
    let rest = ids(kit, JobQuery { limit: 1, cursor: first.next, ..JobQuery::default() }).await;
    assert_eq!(rest, [start[2]], "what was pruned is gone, what is there is met");
}

pub(super) async fn a_state_filter_meets_what_matched_all_along(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let start = kit.new_jobs(&queue, 9).await;
    let dead: Vec<_> = kit.lease(&queue, 6).await;
    for delivery in &dead {
        kit.reject(delivery).await;
    }
    let query = JobQuery { state: Some(State::Dead), ..JobQuery::default() };
    let mut replayed = start[..2].to_vec();
    let met = walk(kit, query, async |kit: &Kit| {
        if let Some(id) = replayed.pop() {
            kit.tell(Command::Replay(id)).await;
        }
    })
    .await;
    assert!(start[2..6].iter().all(|id| met.contains(id)), "those that stayed dead are met: {met:?}");
    assert!(start[6..].iter().all(|id| !met.contains(id)), "those that never were are not");
}

pub(super) async fn a_cursor_below_everything_is_the_end(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let all = kit.new_jobs(&queue, 3).await;
    let below = |id| JobQuery { cursor: Some(Cursor { below: id }), ..JobQuery::default() };
    assert_eq!(ids(kit, below(all[0])).await, []);
    assert_eq!(ids(kit, below(JobId::ZERO)).await, []);
    assert_eq!(ids(kit, below(all[2])).await, [all[1], all[0]]);
    let above = JobId::from_raw(i64::MAX as u64).expect("an id");
    assert_eq!(ids(kit, below(above)).await, newest_first(all), "a cursor above everything is the start");
}

pub(super) async fn persistent_duplicates_are_found(kit: &mut Kit) {
    let (orders, mails) = (kit.queue("orders").await, kit.queue("mails").await);
    kit.new_job(plain(&orders)).await;
    let once = kit.new_job(keyed(&orders, "once")).await;
    kit.publish(keyed(&orders, "once")).await;
    let mail = kit.dead(keyed(&mails, "often")).await;
    let often = kit.new_job(keyed(&orders, "often")).await;
    for _ in 0..3 {
        kit.publish(keyed(&orders, "often")).await;
        kit.publish(keyed(&mails, "often")).await;
    }
    let by = |limit| JobQuery { duplicated: Some(limit), limit: 1, ..JobQuery::default() };
    assert_eq!(ids(kit, by(1)).await, [often, mail, once]);
    assert_eq!(ids(kit, by(3)).await, [often, mail]);
    assert_eq!(ids(kit, by(4)).await, []);
    assert_eq!(ids(kit, JobQuery { state: Some(State::Dead), ..by(2) }).await, [mail]);
    assert_eq!(ids(kit, JobQuery { queue: Some(orders), ..by(2) }).await, [often]);
}

pub(super) async fn a_job_whose_effect_was_replayed_is_a_duplicate(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    for effect in [Effect::Applied, Effect::Replayed] {
        let delivery = kit.publish_and_take(plain(&queue)).await;
        let effect = Some(Receipt { outcome: effect, key: None });
        kit.settle(&delivery, Outcome::Done { result: None, effect }).await;
    }
    let newest = kit.list(JobQuery::default()).await.remove(0).id;
    let by = |limit| JobQuery { duplicated: Some(limit), ..JobQuery::default() };
    assert_eq!(ids(kit, by(1)).await, [newest]);
    assert_eq!(ids(kit, by(2)).await, []);
}

pub(super) async fn a_query_that_makes_no_sense_is_refused(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_jobs(&queue, 3).await;
    let now = kit.now();
    let bad = [
        (JobQuery { from: Some(now.plus(ms(1))), to: Some(now), ..JobQuery::default() }, "from"),
        (JobQuery { limit: 0, ..in_queue(&queue) }, "limit"),
        (JobQuery { limit: PAGE_MAX + 1, ..JobQuery::default() }, "limit"),
        (JobQuery { limit: 0, key: Some(key("order-1")), ..JobQuery::default() }, "limit"),
    ];
    for (query, field) in bad {
        match kit.store().jobs(query.clone()).await {
            Err(StoreError::Invalid(wrong)) => {
                assert_eq!(wrong.iter().map(|v| v.field.as_str()).collect::<Vec<_>>(), [field]);
                assert!(!StoreError::Invalid(wrong).retryable(), "it would be refused again");
            }
            other => panic!("{query:?} was answered {other:?}"),
        }
    }
    assert_eq!(ids(kit, JobQuery { limit: PAGE_MAX, ..JobQuery::default() }).await.len(), 3);
}
