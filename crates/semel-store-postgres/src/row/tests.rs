//! What is written comes back as it was: through PostgreSQL, with every oddity a text can have.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use semel_core::job::{
    Attempt, AttemptStatus, HISTORY_MAX, JobSpec, LastSettle, Overrides, Priority, Progress,
};
use semel_core::lease::Lease;
use semel_core::outcome::{Effect, Receipt};
use semel_core::retry::RetryPolicy;
use semel_core::settle::Verb;
use semel_core::{Fingerprint, Group, JobId, Key, Millis, Payload, QueueName, State, Timestamp, Token};
use semel_store::Suppressed;

use super::*;
use crate::connect::Pool;
use crate::options::Options;
use crate::read::job::{BY_IDS, Whole};
use crate::scratch;
use crate::session::Sql;

/// Text as callers send it: anything that Unicode has.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,12}", Just("\0\u{1}\n\"\\\u{7f}é🦀".to_owned()), Just(String::new())]
}

/// Text without control characters, as names are.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zé🦀 '\"\\\\%_/]{1,12}", Just("x".repeat(255))]
}

fn payload() -> impl Strategy<Value = Payload> {
    let odd =
        [r#" {"b" : 1.0, "a":-0 , "b": 18446744073709551616 } "#, r#""\u0000\ud83e\udd80""#, "\"\u{7f}é🦀\""];
    prop_oneof![
        prop::sample::select(odd.to_vec()).prop_map(str::to_owned),
        text().prop_map(|text| serde_json::to_string(&text).unwrap())
    ]
    .prop_map(|json| Payload::from_json(json).unwrap())
}

fn at() -> impl Strategy<Value = Timestamp> {
    prop_oneof![0..=1u64, 1_800_000_000_000..1_800_000_000_009u64, Just(i64::MAX.cast_unsigned())]
        .prop_map(Timestamp::from_millis)
}

fn span() -> impl Strategy<Value = Millis> {
    any::<u64>().prop_map(Millis::from_millis)
}

/// A count that fits its column.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..3u32, Just(i32::MAX.cast_unsigned())]
}

fn receipt() -> impl Strategy<Value = Receipt> {
    let outcome = prop::sample::select(vec![Effect::Applied, Effect::Replayed, Effect::None]);
    (outcome, of(text())).prop_map(|(outcome, key)| Receipt { outcome, key })
}

fn overrides() -> impl Strategy<Value = Overrides> {
    let retry = of(Just(RetryPolicy::default()));
    (of(any::<u32>()), retry, of(span()), of(span()))
        .prop_map(|(max_attempts, retry, timeout, window)| Overrides { max_attempts, retry, timeout, window })
}

fn spec() -> impl Strategy<Value = JobSpec> {
    let times = (at(), at(), Priority::RANGE, any::<bool>(), any::<u128>());
    let texts = (of(payload()), of(name()), of(name()), vec((text(), text()), 0..3));
    (times, texts, overrides()).prop_map(|(times, (payload, key, group, metadata), overrides)| JobSpec {
        queue: QueueName::try_from("q").unwrap(),
        payload,
        fingerprint: Fingerprint(times.4),
        key: key.map(|key| Key::try_from(key).unwrap()),
        created_at: times.0,
        run_at: times.1,
        priority: Priority::new(times.2).unwrap(),
        group: group.map(|group| Group::try_from(group).unwrap()),
        gated: times.3,
        overrides,
        metadata,
    })
}

fn attempt() -> impl Strategy<Value = Attempt> {
    use AttemptStatus::{Deferred, Expired, Failed, Nacked, Success};
    let status = prop::sample::select(vec![Success, Failed, Nacked, Deferred, Expired]);
    (any::<u32>(), status, of(text()), of(any::<u16>()), at(), of(span()), of(receipt())).prop_map(
        |(number, status, error, status_code, at, duration, effect)| Attempt {
            number,
            status,
            error,
            status_code,
            at,
            duration,
            effect,
        },
    )
}

fn settled() -> impl Strategy<Value = LastSettle> {
    let verbs = vec![Verb::Ack, Verb::Nack, Verb::Defer, Verb::Receive, Verb::Expire];
    (any::<u64>(), prop::sample::select(verbs))
        .prop_map(|(token, verb)| LastSettle { token: Token::from_raw(token), verb })
}

/// What has become of a job that is in one of these states.
fn progress(states: Vec<State>) -> impl Strategy<Value = Progress> {
    let counts = (prop::sample::select(states), at(), number(), number(), any::<u32>(), any::<u32>());
    let rest =
        (of(at()), vec(attempt(), 0..4), of(payload()), of(receipt()), at(), of(settled()), of(text()));
    (counts, rest).prop_map(|(counts, (replayed_at, history, result, effect, end, settled, released))| {
        let (state, due, attempts, deferrals, replays, history_dropped) = counts;
        let finished_at = state.is_finished().then_some(end);
        Progress {
            state,
            due,
            attempts,
            deferrals,
            replays,
            replayed_at,
            history,
            history_dropped,
            result,
            effect,
            finished_at,
            settled,
            released,
        }
    })
}

fn lease() -> impl Strategy<Value = Lease> {
    (0..=i64::MAX, at(), at(), any::<bool>()).prop_map(|(held, since, deadline, received)| Lease {
        token: token(held),
        since,
        deadline,
        received,
    })
}

fn live() -> impl Strategy<Value = LiveRow> {
    (progress(vec![State::Pending]), any::<bool>(), of(lease()), 0..1023).prop_map(
        |(progress, open, lease, node)| {
            let node = lease.is_some().then_some(node);
            LiveRow { progress, open, lease, node }
        },
    )
}

fn trace() -> impl Strategy<Value = TraceRow> {
    let one = (at(), of(text()), any::<bool>()).prop_map(|(at, publisher, payload_matches)| Suppressed {
        at,
        publisher,
        payload_matches,
    });
    (number(), vec(one, 0..3))
        .prop_map(|(duplicates, suppressed)| TraceRow { duplicates, suppressed: suppressed.into() })
}

/// One job, unfinished or finished.
#[derive(Debug, Clone)]
enum Fate {
    Live(LiveRow),
    Done(Progress),
}

fn fate() -> impl Strategy<Value = Fate> {
    let ended = vec![State::Completed, State::Dead, State::Cancelled];
    prop_oneof![live().prop_map(Fate::Live), progress(ended).prop_map(Fate::Done)]
}

static EMPTY: Sql = Sql { text: "TRUNCATE semel.job, semel.live, semel.done, semel.trace", types: &[] };
static PUT_JOB: Sql = Sql {
    text: "INSERT INTO semel.job SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    types: JobColumns::TYPES,
};
static PUT_LIVE: Sql = Sql {
    text: "INSERT INTO semel.live SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
    types: LiveColumns::TYPES,
};
static PUT_DONE: Sql = Sql {
    text: "INSERT INTO semel.done SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    types: DoneColumns::TYPES,
};
static PUT_TRACE: Sql =
    Sql { text: "INSERT INTO semel.trace SELECT * FROM unnest($1, $2, $3)", types: TraceColumns::TYPES };

/// Writes jobs as the store does, numbered from 1, and reads them back.
async fn there_and_back(pool: &Pool, jobs: &[(JobSpec, Fate, TraceRow)]) -> Vec<Whole> {
    let (mut specs, mut lives) = (JobColumns::default(), LiveColumns::default());
    let (mut dones, mut traces) = (DoneColumns::default(), TraceColumns::default());
    for (n, (spec, fate, trace)) in (1..).zip(jobs) {
        let id = JobId::from_raw(n).unwrap();
        specs.push(id, 1, spec);
        let standing = Standing {
            queue: 1,
            priority: spec.priority,
            line: spec.group.as_ref(),
            joined: spec.created_at,
        };
        match fate {
            Fate::Live(row) => lives.push(id, standing, row),
            Fate::Done(progress) => dones.push(id, 1, progress, Timestamp::default()),
        }
        traces.push(id, trace.duplicates, &trace.suppressed);
    }
    let session = pool.session().await.unwrap();
    session.execute(&EMPTY, &[]).await.unwrap();
    session.execute(&PUT_JOB, &specs.params()).await.unwrap();
    session.execute(&PUT_LIVE, &lives.params()).await.unwrap();
    session.execute(&PUT_DONE, &dones.params()).await.unwrap();
    session.execute(&PUT_TRACE, &traces.params()).await.unwrap();
    let rows = session.query(&BY_IDS, &[&specs.id]).await.unwrap();
    rows.iter().rev().map(|row| Whole::read(&mut Cells::of(row)).unwrap()).collect()
}

fn same((spec, fate, trace): &(JobSpec, Fate, TraceRow), back: &Whole) -> Result<(), TestCaseError> {
    prop_assert_eq!(spec, &back.spec);
    prop_assert_eq!(trace, &back.trace);
    match fate {
        Fate::Live(live) => {
            prop_assert_eq!(&live.progress, &back.progress);
            prop_assert_eq!((live.open, live.lease), (back.open, back.lease));
        }
        Fate::Done(progress) => prop_assert_eq!(progress, &back.progress),
    }
    Ok(())
}

#[test]
fn every_row_comes_back_as_it_was() {
    let (database, runtime) = (scratch::database(), scratch::runtime());
    database
        .sql("INSERT INTO semel.queue (name, config, gate, secrets, created_at, free) VALUES ('q', '', '', '', 0, true)")
        .unwrap();
    let pool = Pool::new(database.url(), &Options::default()).unwrap();
    let jobs = vec((spec(), fate(), trace()), 1..40);
    let config = Config { cases: 40, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&jobs, |jobs| {
            let back = runtime.block_on(there_and_back(&pool, &jobs));
            prop_assert_eq!(jobs.len(), back.len());
            jobs.iter().zip(&back).try_for_each(|(job, back)| same(job, back))
        })
        .unwrap();
    pool.close();
}

#[test]
fn what_a_function_in_sql_adds_goes_on_from_what_was_there() {
    let fresh =
        Progress { replays: 2, released: Some("why".into()), ..Progress::fresh(Timestamp::default()) };
    let before = progress::write(&fresh).unwrap();
    let added = r#"{"settled" : {"token" : 7, "verb" : "ack"}, "result" : "{\"a\":1}", "history" : [{"number" : 1, "status" : "success", "at" : 5}]}"#;
    let after = progress::read(Some(&format!("{before}\n{added}"))).unwrap();
    assert_eq!((after.replays, after.released.as_deref()), (2, Some("why")));
    assert_eq!(after.settled, Some(LastSettle { token: Token::from_raw(7), verb: Verb::Ack }));
    assert_eq!(after.result, Some(Payload::from_json(r#"{"a":1}"#).unwrap()));
    assert_eq!((after.history.len(), after.history[0].number, after.history[0].at.millis()), (1, 1, 5));
}

#[test]
fn a_history_that_a_function_in_sql_made_too_long_is_cut_and_says_so() {
    let entry = r#"{"history":[{"number":1,"status":"failed","at":5}]}"#;
    let read = progress::read(Some(&entry.repeat(HISTORY_MAX + 3))).unwrap();
    assert_eq!((read.history.len(), read.history_dropped), (HISTORY_MAX, 3));
}

#[test]
fn a_fresh_job_has_nothing_to_say() {
    assert_eq!(progress::write(&Progress::fresh(Timestamp::from_millis(5))), None);
    assert_eq!(progress::read(None).unwrap(), Progress::fresh(Timestamp::default()));
}

#[test]
fn a_row_that_cannot_be_read_is_damage() {
    for bad in ["{", "7", r#"{"history":[{}]}"#, r#"{"settled":{"token":1,"verb":"shrug"}}"#] {
        assert!(progress::read(Some(bad)).is_err(), "{bad}");
    }
}
