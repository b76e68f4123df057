//! What is wrong on purpose, because a simulation that never objects proves nothing.

use semel_core::settle::Settle;
use semel_store::Command;

/// A broken build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// None: the real thing.
    None,
    /// Any token settles.
    NoFencing,
    /// A key does not keep a second job from being made.
    NoDedup,
    /// Workers have their effect whenever they are given a job.
    NoLedger,
}

impl Flaw {
    /// What is done instead of a command; the last of it is what is answered.
    pub(crate) fn twist(self, command: Command) -> Vec<Command> {
        match (self, command) {
            (Self::NoFencing, Command::Settle(settle)) => vec![Command::Settle(without_token(&settle))],
            (Self::NoDedup, Command::Publish(publish)) => {
                let (queue, key) = (publish.draft().queue.clone(), publish.draft().key.clone());
                let release = key.map(|key| Command::ReleaseKey { queue, key, reason: "broken".into() });
                release.into_iter().chain([Command::Publish(publish)]).collect()
            }
            (_, command) => vec![command],
        }
    }
}

fn without_token(settle: &Settle) -> Settle {
    Settle::new(settle.id(), None, settle.outcome().clone(), settle.report().clone()).unwrap()
}
