//! Flaws in what a store tells: order, lists, counts, times.

use async_trait::async_trait;
use semel_core::job::Job;
use semel_core::lease::Delivery;
use semel_core::time::{Millis, Timestamp};
use semel_store::{Answer, Command, Cursor, MemoryStore, Page, Reply, Stats, Store, StoreError};

use super::Flaw;

/// Jobs go out last first.
#[derive(Default)]
pub(crate) struct OrderReversed;

impl Flaw for OrderReversed {
    fn deliveries(&self, mut deliveries: Vec<Delivery>) -> Vec<Delivery> {
        deliveries.reverse();
        deliveries
    }
}

/// A delivery says it is the first, whatever went before.
#[derive(Default)]
pub(crate) struct AlwaysTheFirstAttempt;

impl Flaw for AlwaysTheFirstAttempt {
    fn deliveries(&self, mut deliveries: Vec<Delivery>) -> Vec<Delivery> {
        deliveries.iter_mut().for_each(|delivery| delivery.attempt = 1);
        deliveries
    }
}

/// A repeated settle is told as if it took effect now.
#[derive(Default)]
pub(crate) struct RepeatsNotTold;

#[async_trait]
impl Flaw for RepeatsNotTold {
    async fn apply(&self, store: &MemoryStore, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let mut answers = store.apply(batch).await?;
        for answer in &mut answers {
            if let Ok(Reply::Settled { repeated, .. }) = answer {
                *repeated = false;
            }
        }
        Ok(answers)
    }
}

/// A cursor skips a job at the end of every page.
#[derive(Default)]
pub(crate) struct CursorSkips;

impl Flaw for CursorSkips {
    fn page(&self, mut page: Page<Job>) -> Page<Job> {
        if page.next.is_some() {
            page.items.pop();
        }
        page
    }
}

/// A page starts with the last job of the page before.
#[derive(Default)]
pub(crate) struct CursorRepeats;

impl Flaw for CursorRepeats {
    fn page(&self, page: Page<Job>) -> Page<Job> {
        let last_but_one = page.items.iter().rev().nth(1).map(|job| Cursor { below: job.id });
        Page { next: page.next.and(last_but_one), ..page }
    }
}

/// The counters are off by one.
#[derive(Default)]
pub(crate) struct MiscountedByOne;

impl Flaw for MiscountedByOne {
    fn stats(&self, mut stats: Stats) -> Stats {
        stats.queues.iter_mut().filter(|entry| entry.completed > 0).for_each(|entry| entry.completed -= 1);
        stats
    }
}

/// The next job and the next expiry are named a millisecond late.
#[derive(Default)]
pub(crate) struct TimesNamedLate;

impl Flaw for TimesNamedLate {
    fn next(&self, time: Option<Timestamp>) -> Option<Timestamp> {
        time.map(|time| time.plus(Millis::from_millis(1)))
    }
}

/// A closed store goes on.
#[derive(Default)]
pub(crate) struct NeverCloses;

impl Flaw for NeverCloses {
    fn closes(&self) -> bool {
        false
    }
}
