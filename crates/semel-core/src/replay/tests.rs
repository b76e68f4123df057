//! What a history proves, what a filter takes, and which errors are alike.

use super::*;
use crate::job::Progress;
use crate::lease::Lease;
use crate::lifecycle::State;
use crate::outcome::{DeliveryError, Outcome};
use crate::publish::{self, Draft};
use crate::queue::{QueueConfig, Rules};
use crate::settle::{self, Policy, Report};
use crate::{Millis, Payload, Token};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn job() -> Job {
    let rules = Rules::new(QueueConfig::default()).unwrap();
    let mut draft = Draft::new(QueueName::try_from("q").unwrap(), Payload::from_json("1").unwrap());
    draft.group = Some(Group::try_from("tenant 42").unwrap());
    publish::create(JobId::from_raw(7).unwrap(), draft.check().unwrap().into_spec(&rules, NOW))
}

fn lease() -> Lease {
    Lease { token: Token::first(1), since: NOW, deadline: NOW.plus(Millis::from_secs(9)), received: false }
}

/// A job after deliveries that ended like this.
fn after(ends: &[(Outcome, bool)]) -> Job {
    let config = QueueConfig::default();
    let policy = Policy { config: &config, max_attempts: 3, retry: &config.retry };
    let mut job = job();
    for (outcome, from_worker) in ends {
        let report = Report { from_worker: *from_worker, ..Report::default() };
        let before = Progress { state: State::Pending, ..job.progress };
        job.progress =
            settle::step(job.id, before, policy, &lease(), outcome, &report, NOW).unwrap().progress;
    }
    job
}

fn buried(mut job: Job, leased: Option<&Lease>) -> Job {
    job.progress = settle::bury(job.id, job.progress, leased, "too many duplicates", NOW).unwrap();
    job
}

fn done(effect: Option<Effect>) -> (Outcome, bool) {
    (Outcome::Done { result: None, effect: effect.map(|outcome| Receipt { outcome, key: None }) }, true)
}

fn failed(error: &DeliveryError) -> (Outcome, bool) {
    (crate::outcome::of_error(error), false)
}

#[test]
fn an_effect_that_happened_in_any_delivery_has_happened() {
    for effect in [Effect::Applied, Effect::Replayed] {
        let last = (Outcome::Rejected { error: "never".into() }, true);
        assert_eq!(preflight(&after(&[done(Some(effect)), last])), Preflight::Applied);
    }
    let mut stripped = after(&[done(Some(Effect::Applied))]);
    stripped.progress = stripped.progress.stripped();
    assert_eq!(preflight(&stripped), Preflight::Applied, "the receipt outlives the history");
}

#[test]
fn what_never_reached_a_worker_has_had_no_effect() {
    let unreached = [
        failed(&DeliveryError::Refused("port 80".into())),
        failed(&DeliveryError::Dns("worker.example".into())),
        failed(&DeliveryError::Blocked("10.0.0.1".into())),
    ];
    assert_eq!(preflight(&after(&unreached)), Preflight::NotApplied);
    assert_eq!(preflight(&after(&[done(Some(Effect::None))])), Preflight::NotApplied);
    assert_eq!(preflight(&buried(job(), None)), Preflight::NotApplied, "no worker ever had it");
}

#[test]
fn one_delivery_that_proves_nothing_leaves_it_unknown() {
    let refused = || failed(&DeliveryError::Refused("port 80".into()));
    let said_by_worker = (Outcome::Failed { error: "the connection was refused: bank".into() }, true);
    let later = Outcome::Backpressure { retry_after: None, scope: None, reason: Some("busy".into()) };
    let doubtful = [
        failed(&DeliveryError::Timeout),
        failed(&DeliveryError::Reset("peer".into())),
        said_by_worker,
        (later, true),
        (Outcome::Expired, false),
        done(None),
    ];
    for end in doubtful {
        let name = format!("{end:?}");
        assert_eq!(preflight(&after(&[refused(), end, refused()])), Preflight::Unknown, "{name}");
    }
}

#[test]
fn what_the_history_no_longer_shows_proves_nothing() {
    let mut job = after(&[failed(&DeliveryError::Dns("worker.example".into()))]);
    job.progress.history_dropped = 1;
    assert_eq!(preflight(&job), Preflight::Unknown);
    let mut out = self::job();
    out.progress.state = State::Processing;
    assert_eq!(preflight(&out), Preflight::Unknown, "a worker has it now");
    assert_eq!(preflight(&buried(self::job(), Some(&lease()))), Preflight::Unknown, "a worker had it");
}

#[test]
fn a_filter_takes_what_passes_all_of_its_parts() {
    let job = buried(job(), None);
    let at = |ms: i64| Some(Timestamp::from_millis(NOW.millis().checked_add_signed(ms).unwrap()));
    let all = ReplayFilter::default();
    let takes = [
        all.clone(),
        ReplayFilter { error: Some("too many duplicates".into()), ..all.clone() },
        ReplayFilter { group: Some(Group::try_from("tenant 42").unwrap()), ..all.clone() },
        ReplayFilter { from: at(0), to: at(1), ..all.clone() },
        ReplayFilter { effects: vec![Preflight::Unknown, Preflight::NotApplied], ..all.clone() },
    ];
    let leaves = [
        ReplayFilter { error: Some("too many".into()), ..all.clone() },
        ReplayFilter { group: Some(Group::try_from("tenant 43").unwrap()), ..all.clone() },
        ReplayFilter { from: at(1), ..all.clone() },
        ReplayFilter { to: at(0), ..all.clone() },
        ReplayFilter { effects: vec![Preflight::Applied], ..all },
    ];
    for filter in takes {
        assert!(filter.matches(&job), "{filter:?}");
    }
    for filter in leaves {
        assert!(!filter.matches(&job), "{filter:?}");
    }
}

#[test]
fn errors_that_differ_only_in_what_varies_are_one_group() {
    let cases = [
        ("the endpoint answered 500", "the endpoint answered N"),
        ("order 17 of 2026-11-15 failed", "order N of N-N-N failed"),
        ("no row 6fa9c0d2-11aa-4b6e-9f00-0123456789ab", "no row ID"),
        ("order-6fa9c0d2e1: gone", "order-ID: gone"),
        ("at 0x7ffe12345678 and 0x1234567890", "at ID and ID"),
        ("cafe 123 is a facade of deadbeef", "cafe N is a facade of deadbeef"),
        ("no such user \"ann 5\" or 'bob'", "no such user \"...\" or \"...\""),
        ("it didn't work and can't", "it didn't work and can't"),
        ("an open \"quote 5", "an open \"quote N"),
        ("größe 5 überschritten", "größe N überschritten"),
        ("-6fa9c0d2- -", "-ID- -"),
        ("", ""),
    ];
    for (error, group) in cases {
        assert_eq!(error_group(error), group, "{error}");
    }
    assert_eq!(error_group(&"ä".repeat(9000)).chars().count(), ERROR_GROUP_MAX);
}

#[test]
fn a_record_is_kept_as_json_and_checked_as_a_whole() {
    let record = ReplayRecord {
        id: "r1".into(),
        queue: QueueName::try_from("q").unwrap(),
        filter: ReplayFilter { effects: vec![Preflight::NotApplied], ..ReplayFilter::default() },
        rate: Some(5),
        dry_run: true,
        state: ReplayState::Running,
        created_at: NOW,
        finished_at: None,
        cursor: JobId::from_raw(9),
        counts: ReplayCounts { looked_at: 3, ..ReplayCounts::default() },
    };
    assert_eq!(record.validate(), Ok(()));
    let text = serde_json::to_string(&record).unwrap();
    assert!(text.contains(r#""dryRun":true"#) && text.contains(r#""notApplied""#), "{text}");
    assert_eq!(serde_json::from_str::<ReplayRecord>(&text).unwrap(), record);
    let filter = ReplayFilter { from: Some(NOW), to: Some(Timestamp::from_millis(1)), ..record.filter };
    let wrong = ReplayRecord { id: String::new(), rate: Some(0), filter, ..record };
    let fields: Vec<_> = wrong.validate().unwrap_err().iter().map(|v| v.field.clone()).collect();
    assert_eq!(fields, ["id", "rate", "filter.from"]);
}

#[test]
fn a_task_that_has_ended_stays_so_and_counts_only_grow() {
    let counts = |a, b| ReplayCounts {
        looked_at: a,
        matched: b,
        replayed: a,
        refused: b,
        applied: a,
        not_applied: b,
        unknown: a,
    };
    let running = ReplayRecord {
        id: "r1".into(),
        queue: QueueName::try_from("q").unwrap(),
        filter: ReplayFilter::default(),
        rate: None,
        dry_run: false,
        state: ReplayState::Running,
        created_at: NOW,
        finished_at: None,
        cursor: None,
        counts: counts(5, 1),
    };
    assert_eq!(running.clone().following(None), running);
    for state in [ReplayState::Cancelled, ReplayState::Done] {
        let ended = ReplayRecord { state, finished_at: Some(NOW), counts: counts(2, 8), ..running.clone() };
        let both = ReplayRecord { counts: counts(5, 8), ..ended.clone() };
        assert_eq!(running.clone().following(Some(&ended)), both, "it stays ended");
        assert_eq!(ended.following(Some(&running)), both, "it ends");
    }
}
