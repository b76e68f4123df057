//! What came of it, for the table and for machines.

use semel_client::http::Job;
use semel_client::{Effect, State};
use serde::Serialize;

use crate::acts::{Act, Rule};
use crate::word::Boundary;

/// The whole demonstration.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) acts: Vec<Played>,
    /// Whether the acts that must fail did, and the others kept their promise.
    pub(crate) held: bool,
}

/// One act.
#[derive(Debug, Serialize)]
pub(crate) struct Played {
    pub(crate) number: usize,
    pub(crate) act: Act,
    pub(crate) rule: Rule,
    /// What is wanted of every order.
    pub(crate) expected: &'static str,
    pub(crate) orders: Vec<Turn>,
    /// How often the service outside was called.
    pub(crate) requests: u32,
    /// Whether it came out as it must: of the first two acts, that they fail.
    pub(crate) as_it_must: bool,
}

/// One order.
#[derive(Debug, Serialize)]
pub(crate) struct Turn {
    pub(crate) order: u32,
    /// Where its first worker was killed.
    pub(crate) killed: Option<Boundary>,
    /// How often its effect happened.
    pub(crate) found: u32,
    /// How often it was delivered.
    pub(crate) deliveries: usize,
    /// Whether it ended among the dead letters.
    pub(crate) dead: bool,
    /// What the worker told the queue of the effect.
    pub(crate) receipt: Option<Effect>,
}

impl Report {
    pub(crate) fn of(acts: Vec<Played>) -> Self {
        Self { held: acts.iter().all(|act| act.as_it_must), acts }
    }
}

impl Played {
    pub(crate) fn of(act: Act, requests: u32, orders: Vec<Turn>) -> Self {
        let rule = act.rule();
        let found: Vec<u32> = orders.iter().map(|turn| turn.found).collect();
        let as_it_must = rule.met(&found);
        Self { number: act.number(), act, rule, expected: rule.wanted(), orders, requests, as_it_must }
    }

    /// What to say of it, in a few words.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.rule, self.as_it_must) {
            (Rule::ShowsTwice, true) => "charged twice",
            (Rule::ShowsLost, true) => "a charge is lost",
            (Rule::Once, true) => "each once",
            (Rule::NeverTwice, true) => "none twice",
            (Rule::ShowsTwice | Rule::ShowsLost, false) => "IT DID NOT FAIL",
            (Rule::Once | Rule::NeverTwice, false) => "BROKEN",
        }
    }

    /// How many orders came to this.
    pub(crate) fn count(&self, is: impl Fn(&Turn) -> bool) -> usize {
        self.orders.iter().filter(|turn| is(turn)).count()
    }
}

impl Turn {
    pub(crate) fn of(order: u32, killed: Option<Boundary>, found: u32, job: &Job) -> Self {
        Self {
            order,
            killed,
            found,
            deliveries: job.history.len(),
            dead: job.state == State::Dead,
            receipt: job.effect.as_ref().map(|receipt| receipt.outcome),
        }
    }
}
