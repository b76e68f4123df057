//! The model test: random histories, run on the memory store and on a backend, must give the same answers.
//!
//! proptest makes the histories (queues changed, jobs published, leased, settled, cancelled, replayed, time passing, the
//! store killed), the memory store's own tables say what must come of each step, and a history that goes wrong is
//! shortened to the few steps that matter. A backend subscribes with one test:
//!
//! ```ignore
//! #[test]
//! fn it_behaves_as_the_memory_store_does() {
//!     semel_store::model::check_against_memory(MyHarness::new);
//! }
//! ```
//!
//! Two settings of the environment: `SEMEL_MODEL_CASES` says how many histories (256 if not set), and
//! `SEMEL_MODEL_SEED` repeats those of a run that failed; the report of a failure names its seed.
//!
//! What the two must have in common, besides the law: ids come from an [`IdGenerator`](semel_core::ids::IdGenerator)
//! of lane 0 that never hands out an id twice, because ids decide the jitter of retries; and every harness starts at the
//! same time. Tokens are each store's own.

#[cfg(test)]
mod coverage;
mod queues;
mod read;
mod records;
mod reference;
mod step;
mod system;
mod tokens;

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use proptest_state_machine::Sequential;
use semel_core::time::Timestamp;
use tokio::runtime::{Builder, Runtime};

use crate::conformance::Harness;
use reference::Reference;
use step::Step;
use system::{Check, System};

/// How many histories are run if the environment does not say.
const CASES: u32 = 256;
/// Most steps of a history: enough for a job to be published, retried, buried, replayed and pruned among others.
const STEPS_MAX: usize = 60;
/// Most histories tried to shorten one that failed.
const SHRINKS_MAX: u32 = 4096;

/// Which histories are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histories {
    /// How many.
    pub cases: u32,
    /// What they are made from: the same seed makes the same histories.
    pub seed: u64,
}

/// Runs the histories that the environment asks for on the memory store and on fresh stores of a backend, and panics with
/// the shortest history it finds on which they differ.
pub fn check_against_memory<H: Harness>(new_harness: impl Fn() -> H) {
    Histories::from_env().check(new_harness);
}

impl Histories {
    /// What `SEMEL_MODEL_CASES` and `SEMEL_MODEL_SEED` say; 256 histories from a random seed if they say nothing.
    pub fn from_env() -> Self {
        let cases = setting("SEMEL_MODEL_CASES").and_then(|n| u32::try_from(n).ok()).unwrap_or(CASES);
        let seed = setting("SEMEL_MODEL_SEED").unwrap_or_else(|| RandomState::new().hash_one(CASES));
        Self { cases, seed }
    }

    /// Fewer of them: one in `n`, and at least one. For a store where a history takes much longer than in memory.
    #[must_use]
    pub fn one_in(self, n: u32) -> Self {
        Self { cases: (self.cases / n.max(1)).max(1), ..self }
    }

    /// Runs them, as [`check_against_memory`] does.
    ///
    /// Every harness MUST be of an empty store and start at the same time, or a failure could not be repeated.
    pub fn check<H: Harness>(self, new_harness: impl Fn() -> H) {
        let runtime =
            Builder::new_current_thread().enable_all().build().expect("a runtime needs but a thread");
        let start = fresh(&runtime, &new_harness).store.now();
        let try_out = |(reference, steps, seen): History| {
            let system = fresh(&runtime, &new_harness);
            runtime.block_on(run(system, reference, steps, seen))
        };
        match TestRunner::new(self.config()).run(&histories(start), try_out) {
            Ok(()) => {}
            Err(TestError::Fail(_, (reference, steps, _))) => {
                let again = |steps: &[Step]| try_out((reference.clone(), steps.to_vec(), None));
                panic!("{}\nSEMEL_MODEL_SEED={} repeats it", report(&reference, steps, again), self.seed)
            }
            Err(TestError::Abort(reason)) => panic!("no history could be made: {reason}"),
        }
    }

    fn config(self) -> Config {
        Config {
            cases: self.cases,
            max_shrink_iters: SHRINKS_MAX,
            rng_seed: RngSeed::Fixed(self.seed),
            // The seed repeats the run, so no file of failures is kept.
            failure_persistence: None,
            ..Config::default()
        }
    }
}

/// What a person needs to know of a history that failed.
fn report(reference: &Reference, steps: Vec<Step>, try_out: impl Fn(&[Step]) -> Check) -> String {
    let steps = shortened(steps, &try_out);
    let reason = match try_out(&steps) {
        Err(TestCaseError::Fail(reason)) => reason.message().to_owned(),
        other => format!("it did, but not the second time ({other:?}): the harness is not deterministic"),
    };
    let mut text =
        format!("the store differs from the memory store: {reason}\nafter {reference:?} and these steps:");
    for (i, step) in steps.iter().enumerate() {
        write!(text, "\n  {}. {step:?}", i + 1).expect("a string takes all text");
    }
    text
}

/// The history without every step that is not needed to make it fail. proptest tries to leave out each step once, from
/// the end; a step may only become needless when one before it is gone.
fn shortened(mut steps: Vec<Step>, try_out: impl Fn(&[Step]) -> Check) -> Vec<Step> {
    let mut at = 0;
    while at < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(at);
        if try_out(&fewer).is_err() {
            (steps, at) = (fewer, 0);
        } else {
            at += 1;
        }
    }
    steps
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

/// A fresh store of the backend. It is made within the runtime, for backends that need one, but not by a task of it.
fn fresh<H: Harness>(runtime: &Runtime, new_harness: &impl Fn() -> H) -> System<H> {
    let _within = runtime.enter();
    System::new(new_harness())
}

/// A store to begin with, steps, and a counter of those that were taken, which proptest shortens by.
type History = (Reference, Vec<Step>, Option<Arc<AtomicUsize>>);

/// Histories that begin at `start`. The harness is a value and not a type, so this is
/// [`proptest_state_machine::ReferenceStateMachine`] put together by hand.
fn histories(start: Timestamp) -> impl Strategy<Value = History> {
    Sequential::new(
        (1..=STEPS_MAX).into(),
        move || step::start().prop_map(move |chosen| Reference::new(start, chosen)),
        |_, _| true,
        |reference: &Reference| step::step(reference.scene()),
        |reference: Reference, step: &Step| reference.next(step),
    )
}

/// Runs one history on a system.
async fn run<H: Harness>(
    mut system: System<H>,
    mut reference: Reference,
    steps: Vec<Step>,
    seen: Option<Arc<AtomicUsize>>,
) -> Check {
    system.follow(&reference).await?;
    for step in steps {
        if let Some(seen) = &seen {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        reference = reference.next(&step);
        reference.audit()?;
        system.follow(&reference).await?;
    }
    system.finish(reference).await
}
