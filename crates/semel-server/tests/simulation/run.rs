//! One simulation, from its seed to its verdict.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::lifecycle::State;
use semel_proof::book::Book;
use semel_proof::checker::{self, Report};
use semel_proof::history::{Answer, Entry};
use semel_proof::survey::Survey;
use semel_store::Store;
use turmoil::Sim;

use crate::faults::{Faults, USUAL_LATENCY};
use crate::flaw::Flaw;
use crate::publisher::Publisher;
use crate::puller::Puller;
use crate::world::{World, at_once};
use crate::{panics, server, turn, webhook};

/// How much simulated time a host gets at once. Messages arrive at the start of a turn.
const TICK: Duration = Duration::from_millis(20);
/// How long things go wrong.
const TROUBLE: Duration = Duration::from_secs(5);
/// How long it may take, once they do not any more, until every job has come to its end (I8).
const DRAIN: Duration = Duration::from_secs(60);
/// How often to look whether that is so.
const LOOK: u32 = 5;

/// What came of a simulation.
pub(crate) struct Run {
    /// What everybody asked and was told.
    pub(crate) history: String,
    /// What went wrong in it.
    pub(crate) faults: Vec<String>,
    /// What the checker says.
    pub(crate) report: Report,
    /// What else must not be.
    pub(crate) complaints: Vec<String>,
    /// What happened, in numbers.
    pub(crate) tally: Tally,
}

/// How often something happened. A simulation in which it never does says nothing about it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) answered: u64,
    pub(crate) unknown: u64,
    pub(crate) deduplicated: u64,
    pub(crate) collisions: u64,
    pub(crate) stale: u64,
    pub(crate) rescued: u64,
    pub(crate) deferred: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
    pub(crate) reruns: u64,
    pub(crate) crashes: u64,
}

/// Runs the simulation of a seed.
pub(crate) fn run(seed: u64, flaw: Flaw) -> Run {
    let _turn = turn::take();
    panics::watch();
    let world = World::new(seed, flaw);
    let publishers = [3, 4].map(|number| Publisher::new(world.clone(), number));
    let mut faults = Faults::new(world.clone());
    let mut sim = build(seed, &world, &publishers);
    let ended = live(&mut sim, &world, &publishers, &mut faults);
    // Calls that are still open are closed, as unknown, when their hosts go.
    drop(sim);
    if let Err(what) = ended {
        world.complain(what);
    }
    judge(&world, &faults)
}

fn build<'a>(seed: u64, world: &Arc<World>, publishers: &[Arc<Publisher>]) -> Sim<'a> {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(USUAL_LATENCY)
        .build();
    let of_server = world.clone();
    sim.host("server", move || server::run(of_server.clone()));
    let of_worker = world.clone();
    sim.host("worker", move || webhook::run(of_worker.clone()));
    for number in [1, 2] {
        let puller = Puller::new(world.clone(), number);
        sim.host(format!("puller-{number}"), move || puller.clone().run());
    }
    for (publisher, number) in publishers.iter().zip(1..) {
        let publisher = publisher.clone();
        sim.host(format!("publisher-{number}"), move || publisher.clone().run());
    }
    sim
}

/// Lets things go wrong for a while, then mends them and waits until all work is done.
fn live(
    sim: &mut Sim<'_>,
    world: &World,
    publishers: &[Arc<Publisher>],
    faults: &mut Faults,
) -> Result<(), String> {
    let step = |sim: &mut Sim<'_>| sim.step().map(drop).map_err(|error| format!("a host ended: {error}"));
    while sim.elapsed() < TROUBLE {
        faults.turn(sim);
        step(sim)?;
    }
    faults.heal(sim);
    world.calm_down();
    while sim.elapsed() < TROUBLE + DRAIN {
        for _ in 0..LOOK {
            step(sim)?;
        }
        if publishers.iter().all(|publisher| publisher.is_done()) && world.unfinished() == 0 {
            return Ok(());
        }
    }
    Err(format!("I8: {} jobs are left {DRAIN:?} after all was well again", world.unfinished()))
}

fn judge(world: &World, faults: &Faults) -> Run {
    let history = world.journal.take();
    let mut book = Book::new();
    book.read(&history).unwrap();
    let keys = book.publishes().filter_map(|(of, _)| Some((of.queue.clone(), of.key()?.clone())));
    let store: Arc<dyn Store> = world.store.clone();
    let survey = Survey { drained: true, ..at_once(Survey::read(&store, keys.collect::<Vec<_>>())).unwrap() };
    let mut complaints = world.complaints();
    complaints.extend(book.objections().iter().map(|what| format!("I9: {what}")));
    if panics::seen() > 0 {
        complaints.push(format!("I10: {} panics", panics::seen()));
    }
    check_effects(world, &survey, &mut complaints);
    let tally = Tally::of(&history, &survey, world, faults);
    Run { report: checker::check(&book, &survey), faults: faults.log().to_vec(), history, complaints, tally }
}

/// I4: what is completed has had its effect, and nothing has had it twice.
fn check_effects(world: &World, survey: &Survey, complaints: &mut Vec<String>) {
    for id in world.ledger.doubled() {
        complaints.push(format!("I4: {id} has had {} effects", world.ledger.of(id).effects));
    }
    let mut completed: Vec<_> = survey.jobs.iter().filter(|(_, job)| job.state == State::Completed).collect();
    completed.sort_by_key(|(id, _)| **id);
    for (id, _) in completed {
        if world.ledger.of(*id).effects == 0 {
            complaints.push(format!("I4: {id} is completed and has had no effect"));
        }
    }
}

impl Run {
    /// Whether every invariant held. That a single run is too short to prove much (I9) is for the sum of them to mend.
    pub(crate) fn holds(&self) -> bool {
        self.report.count == 0 && self.complaints.is_empty()
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.report)?;
        self.complaints.iter().try_for_each(|what| writeln!(f, "  {what}"))?;
        write!(f, "  {:?}", self.tally)
    }
}

impl Tally {
    fn of(history: &str, survey: &Survey, world: &World, faults: &Faults) -> Self {
        let mut tally = Self { reruns: world.ledger.reruns(), crashes: faults.crashes(), ..Self::default() };
        for line in history.lines() {
            tally.note(&line.parse().unwrap());
        }
        let ended = |state| survey.jobs.values().filter(|job| job.state == state).count() as u64;
        tally.dead = ended(State::Dead);
        tally.cancelled = ended(State::Cancelled);
        tally.deferred = survey.jobs.values().map(|job| u64::from(job.deferrals)).sum();
        tally
    }

    fn note(&mut self, entry: &Entry) {
        self.answered += u64::from(matches!(entry, Entry::Ok { .. }));
        match entry {
            Entry::Unknown { .. } => self.unknown += 1,
            Entry::Fail { why, .. } => self.stale += u64::from(why == "stale_lease"),
            Entry::Ok { answer: Answer::Published { deduplicated, matches, .. }, .. } => {
                self.deduplicated += u64::from(*deduplicated);
                self.collisions += u64::from(!matches);
            }
            Entry::Ok { answer: Answer::Rescued(jobs), .. } => self.rescued += jobs.len() as u64,
            _ => {}
        }
    }

    /// Adds the numbers of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.unknown += other.unknown;
        self.deduplicated += other.deduplicated;
        self.collisions += other.collisions;
        self.stale += other.stale;
        self.rescued += other.rescued;
        self.deferred += other.deferred;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
        self.reruns += other.reruns;
        self.crashes += other.crashes;
    }

    /// Everything that never happened.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let all = [
            (self.unknown, "an answer that was lost"),
            (self.deduplicated, "a publish that was suppressed"),
            (self.collisions, "a collision"),
            (self.stale, "a stale token"),
            (self.rescued, "a lease that ran out"),
            (self.deferred, "backpressure"),
            (self.dead, "a dead letter"),
            (self.cancelled, "a cancelled job"),
            (self.reruns, "a job that ran twice"),
            (self.crashes, "a crash"),
        ];
        all.into_iter().filter(|(times, _)| *times == 0).map(|(_, what)| what).collect()
    }
}
