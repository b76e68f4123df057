//! Flaws that only a crash shows: what was answered and is not there, or is there and should not be.

use std::sync::Mutex;

use semel_core::lease::Delivery;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::settle::{Report, Settle};
use semel_store::Command;

use super::{Asked, Flaw};

fn all(asked: &Asked, wanted: fn(&Command) -> bool) -> bool {
    matches!(asked, Asked::Apply(batch) if !batch.is_empty() && batch.iter().all(wanted))
}

/// The last settle was answered before it was durable.
#[derive(Default)]
pub(crate) struct ForgetsTheLastSettle;

impl Flaw for ForgetsTheLastSettle {
    fn forgets(&self, asked: &Asked, last: bool) -> bool {
        last && all(asked, |c| matches!(c, Command::Settle(_)))
    }
}

/// The last publish was answered before it was durable.
#[derive(Default)]
pub(crate) struct ForgetsTheLastPublish;

impl Flaw for ForgetsTheLastPublish {
    fn forgets(&self, asked: &Asked, last: bool) -> bool {
        last && all(asked, |c| matches!(c, Command::Publish(_)))
    }
}

/// Cancellations, replays and released keys are kept in memory only.
#[derive(Default)]
pub(crate) struct ForgetsWhatPeopleDid;

impl Flaw for ForgetsWhatPeopleDid {
    fn forgets(&self, asked: &Asked, _: bool) -> bool {
        all(asked, |c| matches!(c, Command::Cancel(_) | Command::Replay(_) | Command::ReleaseKey { .. }))
    }
}

/// What a rescue did is kept in memory only.
#[derive(Default)]
pub(crate) struct ForgetsRescues;

impl Flaw for ForgetsRescues {
    fn forgets(&self, asked: &Asked, _: bool) -> bool {
        all(asked, |c| matches!(c, Command::Rescue { .. }))
    }
}

/// What was pruned comes back.
#[derive(Default)]
pub(crate) struct ForgetsPrunes;

impl Flaw for ForgetsPrunes {
    fn forgets(&self, asked: &Asked, _: bool) -> bool {
        all(asked, |c| matches!(c, Command::Prune { .. }))
    }
}

/// Schedules are kept in memory only.
#[derive(Default)]
pub(crate) struct ForgetsSchedules;

impl Flaw for ForgetsSchedules {
    fn forgets(&self, asked: &Asked, _: bool) -> bool {
        all(asked, |c| matches!(c, Command::PutSchedule(_)))
    }
}

/// A crash ends every pause.
#[derive(Default)]
pub(crate) struct CrashResumes;

impl Flaw for CrashResumes {
    fn at_crash(&self) -> Vec<Command> {
        vec![Command::Pause { queue: QueueName::try_from("orders").expect("a valid name"), paused: false }]
    }
}

/// The counter of tokens is kept in memory, without an epoch.
#[derive(Default)]
pub(crate) struct TokensStartOver;

impl Flaw for TokensStartOver {
    fn forgets(&self, asked: &Asked, _: bool) -> bool {
        matches!(asked, Asked::Crash | Asked::Lease(_))
    }
}

/// A crash is an attempt of every job that was out.
#[derive(Default)]
pub(crate) struct CrashBurnsAttempts {
    out: Mutex<Vec<Delivery>>,
}

impl Flaw for CrashBurnsAttempts {
    fn deliveries(&self, deliveries: Vec<Delivery>) -> Vec<Delivery> {
        self.out.lock().expect("no call panics with the list").extend(deliveries.iter().cloned());
        deliveries
    }

    fn at_crash(&self) -> Vec<Command> {
        let failed = |delivery: Delivery| {
            let outcome = Outcome::Failed { error: "crash".into() };
            let settle = Settle::new(delivery.id, None, outcome, Report::default());
            Command::Settle(settle.expect("a valid settle"))
        };
        self.out.lock().expect("no call panics with the list").drain(..).map(failed).collect()
    }
}
