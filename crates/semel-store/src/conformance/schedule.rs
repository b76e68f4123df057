//! Time: jobs with a delay or a run-at, and the records of schedules.

use semel_core::Millis;
use semel_core::lifecycle::State;
use semel_core::publish::{DELAY_MAX, Draft};
use semel_core::records::ScheduleRecord;
use semel_core::refusal::Refusal;
use semel_core::time::Timestamp;

use super::kit::Kit;
use super::make::{keyed, ms, plain, publish, published, queue_name, secs};
use crate::command::{Command, Reply};

pub(super) async fn a_delayed_job_goes_out_at_its_time_and_not_before(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let start = kit.now();
    let id = kit.new_job(Draft { delay: Some(secs(60)), ..plain(&queue) }).await;
    let job = kit.job(id).await;
    assert_eq!(
        (job.spec.created_at, job.spec.run_at, job.progress.due),
        (start, start.plus(secs(60)), start.plus(secs(60)))
    );
    assert_eq!(job.progress.state, State::Pending);
    kit.advance(secs(60).minus(ms(1)));
    kit.expect_nothing(&queue, "it is a millisecond early").await;
    kit.advance(ms(1));
    assert_eq!(kit.lease_ids(&queue, 10).await, [id]);
}

pub(super) async fn a_run_at_is_kept_to_the_millisecond(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let at = kit.now().plus(ms(123_457));
    let id = kit.new_job(Draft { run_at: Some(at), ..plain(&queue) }).await;
    kit.advance(ms(123_456));
    kit.expect_nothing(&queue, "it is a millisecond early").await;
    kit.advance(ms(1));
    assert_eq!((kit.now(), kit.take(&queue).await.id), (at, id));
}

pub(super) async fn a_time_that_has_passed_means_at_once(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let waiting = kit.new_job(plain(&queue)).await;
    let past = Draft { run_at: Some(Timestamp::from_millis(1)), ..plain(&queue) };
    let zero = Draft { delay: Some(Millis::ZERO), ..plain(&queue) };
    let late = kit.new_job(past).await;
    let now = kit.new_job(zero).await;
    assert_eq!(kit.job(late).await.progress.due, kit.now(), "not before what was waiting already");
    assert_eq!(kit.lease_ids(&queue, 10).await, [waiting, late, now]);
}

pub(super) async fn a_job_can_be_planned_a_year_ahead_and_no_further(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let limit = kit.now().plus(DELAY_MAX);
    let at_limit = kit.new_job(Draft { run_at: Some(limit), ..plain(&queue) }).await;
    let delayed = kit.new_job(Draft { delay: Some(DELAY_MAX), ..plain(&queue) }).await;
    for past in [limit.plus(ms(1)), Timestamp::from_millis(u64::MAX)] {
        let refusal = kit.refused(publish(Draft { run_at: Some(past), ..keyed(&queue, "far") })).await;
        assert_eq!(refusal.code(), "invalid");
    }
    kit.advance(DELAY_MAX.minus(ms(1)));
    kit.expect_nothing(&queue, "it is a millisecond early").await;
    kit.advance(ms(1));
    assert_eq!(kit.lease_ids(&queue, 10).await, [at_limit, delayed]);
}

pub(super) async fn a_delay_waits_through_a_crash(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(Draft { delay: Some(secs(60)), ..plain(&queue) }).await;
    let due = kit.now().plus(secs(60));
    kit.advance(secs(30));
    kit.crash().await;
    kit.expect_nothing(&queue, "a crash does not bring it forward").await;
    assert!(kit.next_due(&queue).await.is_some_and(|next| next <= due), "nor make it forgotten");
    kit.advance(secs(30));
    assert_eq!(kit.lease_ids(&queue, 10).await, [id]);
}

pub(super) async fn a_job_whose_time_came_during_a_crash_is_ready(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(Draft { delay: Some(secs(60)), ..plain(&queue) }).await;
    kit.advance(secs(3600));
    kit.crash().await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [id]);
}

pub(super) async fn a_delayed_job_can_be_cancelled(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.cancelled(Draft { delay: Some(secs(60)), ..plain(&queue) }).await;
    kit.advance(secs(60));
    kit.expect_nothing(&queue, "it was called off").await;
    assert_eq!(kit.next_due(&queue).await, None);
}

pub(super) async fn a_delayed_job_holds_its_key_from_the_publish_on(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(Draft { delay: Some(secs(60)), ..keyed(&queue, "order-1") }).await;
    let again = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!((again.id, again.deduplicated), (id, true));
    kit.expect_nothing(&queue, "a duplicate does not bring it forward").await;
}

pub(super) async fn many_delayed_jobs_go_out_as_their_times_come(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mut planned = Vec::new();
    for n in 0..40 {
        let wait = n * 17 % 40;
        planned.push((wait, kit.new_job(Draft { delay: Some(secs(wait)), ..plain(&queue) }).await));
    }
    planned.sort();
    for (wait, id) in planned {
        assert_eq!(kit.lease_ids(&queue, 10).await, [id], "second {wait}");
        kit.advance(secs(1));
    }
}

fn nightly(name: &str) -> ScheduleRecord {
    ScheduleRecord {
        name: name.into(),
        queue: queue_name("orders"),
        cron: "0 3 * * *".into(),
        zone: "Europe/Berlin".into(),
        payload: r#"{"report": "größe"}"#.into(),
        next_at: Timestamp::from_millis(1_900_000_000_000),
    }
}

fn put(schedule: ScheduleRecord) -> Command {
    Command::PutSchedule(Box::new(schedule))
}

pub(super) async fn schedules_are_kept_and_listed_by_name(kit: &mut Kit) {
    kit.queue("orders").await;
    assert_eq!(kit.store().schedules().await.expect("lists"), []);
    for name in ["nightly", "größe", "Hourly '; --"] {
        assert_eq!(kit.tell(put(nightly(name))).await, Reply::Done);
    }
    kit.crash().await;
    let expected = [nightly("Hourly '; --"), nightly("größe"), nightly("nightly")];
    assert_eq!(kit.store().schedules().await.expect("lists"), expected);
}

pub(super) async fn a_schedule_is_replaced_by_its_name(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(nightly("nightly"))).await;
    let moved =
        ScheduleRecord { cron: "0 4 * * *".into(), next_at: Timestamp::from_millis(1), ..nightly("nightly") };
    kit.tell(put(moved.clone())).await;
    assert_eq!(kit.store().schedules().await.expect("lists"), [moved]);
}

pub(super) async fn a_schedule_can_be_taken_away_once(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(nightly("nightly"))).await;
    assert_eq!(kit.tell(Command::DeleteSchedule("nightly".into())).await, Reply::Done);
    kit.crash().await;
    assert_eq!(kit.store().schedules().await.expect("lists"), []);
    for missing in ["nightly", "", "%", "' OR '1'='1"] {
        let refusal = kit.refused(Command::DeleteSchedule(missing.into())).await;
        assert_eq!(refusal.code(), "record_not_found", "{missing:?}");
    }
}

pub(super) async fn a_schedule_that_makes_no_sense_is_refused(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(nightly("nightly"))).await;
    let bad = [
        nightly(""),
        nightly("two\nlines"),
        ScheduleRecord { cron: " ".into(), ..nightly("nightly") },
        ScheduleRecord { zone: String::new(), ..nightly("nightly") },
        ScheduleRecord { payload: "{".into(), ..nightly("nightly") },
    ];
    for record in bad {
        assert_eq!(kit.refused(put(record.clone())).await.code(), "invalid", "{record:?}");
    }
}

fn advance(name: &str, from: u64, to: u64) -> Command {
    let at = Timestamp::from_millis;
    Command::AdvanceSchedule { name: name.into(), from: at(from), to: at(to) }
}

pub(super) async fn a_schedule_moves_on_from_where_it_stands(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(nightly("nightly"))).await;
    kit.tell(put(nightly("other"))).await;
    let tick = nightly("nightly").next_at.millis();
    let outrun = Refusal::Outrun { kind: "schedule", name: "nightly".into() };
    assert_eq!(kit.refused(advance("nightly", tick - 1, tick + 1)).await, outrun, "it is further");
    assert_eq!(kit.tell(advance("nightly", tick, tick + 100)).await, Reply::Done);
    assert_eq!(kit.refused(advance("nightly", tick, tick + 100)).await, outrun, "somebody did it before");
    kit.crash().await;
    let next_at = Timestamp::from_millis(tick + 100);
    let expected = [ScheduleRecord { next_at, ..nightly("nightly") }, nightly("other")];
    assert_eq!(kit.store().schedules().await.expect("lists"), expected, "nothing else has changed");
    kit.tell(Command::DeleteSchedule("nightly".into())).await;
    for missing in ["nightly", "", "%"] {
        let gone = Refusal::RecordNotFound { kind: "schedule", name: missing.into() };
        assert_eq!(kit.refused(advance(missing, tick + 100, tick + 200)).await, gone);
    }
}

pub(super) async fn of_many_who_move_a_schedule_on_one_does(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(nightly("nightly"))).await;
    let tick = nightly("nightly").next_at.millis();
    let answers = kit.at_once(20, |store| async move {
        store.apply(vec![advance("nightly", tick, tick + 1)]).await.expect("the store takes it").remove(0)
    });
    let moved = answers.await.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(moved, 1);
}

pub(super) async fn a_tick_is_published_once_however_often_it_is_sent(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let tick = || vec![publish(keyed(&queue, "schedule/nightly/1900000000000")), put(nightly("nightly"))];
    let first = kit.apply(tick()).await;
    kit.crash().await;
    let second = kit.apply(tick()).await;
    assert_eq!(published(&first[0]).id, published(&second[0]).id, "the key of the tick makes it one job");
    assert_eq!(kit.stats(&queue).await.pending, 1);
}
