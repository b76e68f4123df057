//! The judge: reads a history and the store it left behind, and names every invariant that does not hold.
//!
//! One file per invariant, each a function over the same two witnesses. An invariant speaks only of what is certain: an
//! operation whose outcome nobody knows may have happened or not, and both must be allowed for.

mod i1_nothing_lost;
mod i2_nothing_invented;
mod i3_one_job_per_key;
mod i5_fenced;
mod i6_attempts_and_time;
mod i7_counters;
mod i9_enough;
#[cfg(test)]
mod stories;

use std::fmt;

use semel_core::ids::JobId;

use crate::book::Book;
use crate::survey::Survey;

/// How many violations of one invariant a report spells out; it counts them all.
const SPELLED_OUT: usize = 10;

/// The promises that can be judged from a history and a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Every acknowledged publish ends in exactly one of completed, dead, cancelled; none is lost.
    I1,
    /// Nothing is delivered that was never published.
    I2,
    /// One job per key and window, and every answer names it.
    I3,
    /// A stale token never changes anything; the tokens of a job strictly increase.
    I5,
    /// Attempts stay within their cap, nothing is delivered before its time, backpressure burns no attempt.
    I6,
    /// The counters are those of the listing.
    I7,
}

/// One way in which an invariant does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The invariant.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
    /// The jobs concerned.
    pub jobs: Vec<JobId>,
}

/// What a run is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that was checked holds.
    Holds,
    /// An invariant does not hold.
    Broken,
    /// Too little happened to say anything (I9), or the history contradicts itself.
    Invalid,
}

/// Everything a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The breaches, at most a few of each invariant.
    pub breaches: Vec<Breach>,
    /// How many breaches there were.
    pub count: usize,
    /// How many operations were answered.
    pub oks: u64,
    /// Why the run says nothing, if it does not.
    pub invalid: Option<String>,
}

/// Judges a history and the store it left behind.
pub fn check(book: &Book, survey: &Survey) -> Report {
    let mut findings = Findings::default();
    i1_nothing_lost::check(book, survey, &mut findings);
    i2_nothing_invented::check(book, survey, &mut findings);
    i3_one_job_per_key::check(book, survey, &mut findings);
    i5_fenced::check(book, survey, &mut findings);
    i6_attempts_and_time::check(book, survey, &mut findings);
    i7_counters::check(survey, &mut findings);
    findings.into_report(book.oks(), i9_enough::check(book))
}

/// Collects breaches.
#[derive(Debug, Default)]
struct Findings {
    breaches: Vec<Breach>,
    count: usize,
}

impl Findings {
    fn add(
        &mut self,
        invariant: Invariant,
        jobs: impl IntoIterator<Item = JobId>,
        what: impl FnOnce() -> String,
    ) {
        self.count += 1;
        let same = self.breaches.iter().filter(|breach| breach.invariant == invariant).count();
        if same < SPELLED_OUT {
            self.breaches.push(Breach { invariant, what: what(), jobs: jobs.into_iter().collect() });
        }
    }

    fn into_report(mut self, oks: u64, invalid: Option<String>) -> Report {
        // The witnesses are hash maps: sorted, two checks of one run read the same.
        self.breaches.sort_by(|a, b| (a.invariant, &a.jobs, &a.what).cmp(&(b.invariant, &b.jobs, &b.what)));
        Report { breaches: self.breaches, count: self.count, oks, invalid }
    }
}

impl Report {
    /// What the run is worth. A breach counts even when the run is too short to prove anything else.
    pub fn verdict(&self) -> Verdict {
        match (self.count, &self.invalid) {
            (0, None) => Verdict::Holds,
            (0, Some(_)) => Verdict::Invalid,
            _ => Verdict::Broken,
        }
    }

    /// Whether an invariant was found broken.
    pub fn breaks(&self, invariant: Invariant) -> bool {
        self.breaches.iter().any(|breach| breach.invariant == invariant)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} operations answered, {} breaches", self.verdict(), self.oks, self.count)?;
        if let Some(why) = &self.invalid {
            write!(f, "\n  {why}")?;
        }
        for Breach { invariant, what, jobs } in &self.breaches {
            let jobs: Vec<_> = jobs.iter().map(ToString::to_string).collect();
            write!(f, "\n  {invariant:?}: {what} [{}]", jobs.join(", "))?;
        }
        Ok(())
    }
}
