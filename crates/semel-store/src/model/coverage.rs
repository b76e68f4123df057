//! Whether the histories go everywhere: a model test that never meets a collision says nothing about collisions.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use semel_core::job::{AttemptStatus, Job};
use semel_core::publish::RELEASED_BY_PUBLISH;
use semel_core::time::Timestamp;

use super::histories;
use super::reference::Call;
use crate::command::{Answer, Reply};

/// Twice as many histories as a run has by default: some of what is looked for is met in one of a hundred.
const HISTORIES: u32 = 2 * super::CASES;

/// What is met in the histories of one seed, and how often.
fn met() -> BTreeMap<String, u32> {
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(1), ..Config::default() });
    let histories = histories(Timestamp::from_millis(1_800_000_000_000));
    let mut met = BTreeMap::new();
    for _ in 0..HISTORIES {
        let (mut reference, steps, _) =
            histories.new_tree(&mut runner).expect("histories can be made").current();
        for step in steps {
            reference = reference.next(&step);
            for name in names(&reference.call) {
                *met.entry(name).or_default() += 1;
            }
        }
        for job in reference.jobs.iter().filter_map(|id| reference.tables.job(*id)) {
            for name in fates(&job) {
                *met.entry(name.into()).or_default() += 1;
            }
        }
    }
    met
}

/// What has become of a job in a whole history.
fn fates(job: &Job) -> Vec<&'static str> {
    let (spec, progress) = (&job.spec, &job.progress);
    let fates = [
        ("job replayed", progress.replays > 0),
        ("job revived", progress.replays > 0 && job.duplicates > 0),
        ("job replaced", progress.released.as_deref() == Some(RELEASED_BY_PUBLISH)),
        ("job expired", progress.history.iter().any(|a| a.status == AttemptStatus::Expired)),
        ("job deferred", progress.deferrals > 0),
        ("job gated", spec.gated),
        ("job stripped", spec.payload.is_none()),
        ("job buried", progress.last_error() == Some("asked")),
    ];
    fates.into_iter().filter(|(_, met)| *met).map(|(name, _)| name).collect()
}

fn names(call: &Call) -> Vec<String> {
    match call {
        Call::Apply(_, answers) => answers.iter().map(name).collect(),
        Call::Lease(_, deliveries) => {
            deliveries.iter().map(|d| format!("delivery probe={}", d.probe)).collect()
        }
        Call::Prune { dropped, stripped, .. } => {
            vec![format!("prune dropped={} stripped={}", *dropped > 0, *stripped > 0)]
        }
        _ => Vec::new(),
    }
}

fn name(answer: &Answer) -> String {
    match answer {
        Err(refusal) => refusal.code().into(),
        Ok(Reply::Published(p)) => {
            format!(
                "published {} deduplicated={} matches={}",
                p.state.name(),
                p.deduplicated,
                p.payload_matches
            )
        }
        Ok(Reply::Settled { state, repeated, .. }) => format!("settled {} repeated={repeated}", state.name()),
        Ok(Reply::Rescued { jobs, more }) => format!("rescued {} more={more}", !jobs.is_empty()),
        Ok(Reply::Extended(_)) => "extended".into(),
        Ok(Reply::KeyReleased(_)) => "key released".into(),
        Ok(Reply::Done) => "done".into(),
        Ok(Reply::Pruned { .. }) => "pruned".into(),
    }
}

/// What must be met: every way a command ends, and every turn a job's life takes.
const EVERYTHING: [&str; 52] = [
    "delivery probe=false",
    "delivery probe=true",
    "done",
    "extended",
    "invalid",
    "job buried",
    "job deferred",
    "job expired",
    "job gated",
    "job replaced",
    "job replayed",
    "job revived",
    "job stripped",
    "job_not_found",
    "key released",
    "key_collision",
    "key_not_found",
    "key_pattern",
    "key_required",
    "not_leased",
    "outrun",
    "payload_gone",
    "payload_too_large",
    "prune dropped=false stripped=true",
    "prune dropped=true stripped=false",
    "published awaiting_ack deduplicated=true matches=true",
    "published cancelled deduplicated=true matches=true",
    "published completed deduplicated=true matches=false",
    "published completed deduplicated=true matches=true",
    "published dead deduplicated=true matches=true",
    "published pending deduplicated=false matches=true",
    "published pending deduplicated=true matches=false",
    "published pending deduplicated=true matches=true",
    "published processing deduplicated=true matches=true",
    "queue_not_empty",
    "queue_not_found",
    "record_not_found",
    "rescued false more=false",
    "rescued true more=false",
    "rescued true more=true",
    "settled awaiting_ack repeated=false",
    "settled awaiting_ack repeated=true",
    "settled cancelled repeated=true",
    "settled completed repeated=false",
    "settled completed repeated=true",
    "settled dead repeated=false",
    "settled dead repeated=true",
    "settled pending repeated=false",
    "settled pending repeated=true",
    "settled processing repeated=true",
    "stale_lease",
    "wrong_state",
];

#[test]
fn histories_go_everywhere() {
    let met = met();
    let missed: Vec<_> = EVERYTHING.into_iter().filter(|name| !met.contains_key(*name)).collect();
    assert!(missed.is_empty(), "no history met {missed:?}; it met {met:#?}");
}
