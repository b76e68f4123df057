//! Tokens of the reference and the system: each makes its own, so deliveries are matched and not compared.

use std::collections::BTreeMap;

use semel_core::ids::{JobId, Token};
use semel_core::lease::Extend;
use semel_core::settle::Settle;

use crate::command::Command;

/// Which token of the system stands for which of the reference.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    theirs: BTreeMap<Token, Token>,
    ours: BTreeMap<Token, Token>,
    newest: BTreeMap<JobId, Token>,
}

impl Tokens {
    /// Notes a delivery. False if the system's token is not greater than every one the job had before.
    pub(super) fn match_up(&mut self, id: JobId, ours: Token, theirs: Token) -> bool {
        self.theirs.insert(ours, theirs);
        self.ours.insert(theirs, ours);
        self.newest.insert(id, theirs).is_none_or(|before| before < theirs)
    }

    /// The reference's token for one of the system's. One that it never handed out stays itself, and so will not match.
    pub(super) fn ours(&self, theirs: Token) -> Token {
        self.ours.get(&theirs).copied().unwrap_or(theirs)
    }

    fn theirs(&self, ours: Token) -> Token {
        self.theirs.get(&ours).copied().unwrap_or(ours)
    }

    /// The command as the system must get it.
    pub(super) fn translate(&self, command: &Command) -> Command {
        let theirs = |token: Option<Token>| token.map(|token| self.theirs(token));
        match command {
            Command::Settle(settle) => {
                let token = theirs(settle.token());
                let same = Settle::new(settle.id(), token, settle.outcome().clone(), settle.report().clone());
                Command::Settle(same.expect("it was valid with the other token"))
            }
            Command::Extend(extend) => {
                let same = Extend::new(extend.id, theirs(extend.token), extend.duration());
                Command::Extend(same.expect("it was valid with the other token"))
            }
            other => other.clone(),
        }
    }
}
