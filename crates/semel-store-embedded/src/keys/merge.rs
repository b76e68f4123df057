//! Merging: which runs become one, and how.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use super::error::KeyIndexError;
use super::range::Entry;
use super::run::Run;
use super::stream::RunEntries;

/// Chooses `fan` adjacent runs worth merging, given the sizes of a gapless chain of runs, oldest first.
///
/// Runs are ranked by size, a rank being a factor of `fan`; `fan` neighbours of one rank make one of the next, so each
/// entry is rewritten once a rank. A small run with larger, newer ones after it (expiry has emptied it) will never get
/// small neighbours, and counts as large as those: without this rule such runs would pile up. The newest, which are the
/// smallest, come first.
pub(super) fn choose(sizes: &[u64], fan: usize, max_entries: u64) -> Option<Range<usize>> {
    let fan = fan.max(2);
    let mut ranks: Vec<u32> = sizes.iter().map(|size| size.max(&1).ilog(fan as u64)).collect();
    for n in (1..ranks.len()).rev() {
        ranks[n - 1] = ranks[n - 1].max(ranks[n]);
    }
    let fits = |start: &usize| {
        let window = *start..start + fan;
        ranks[window.start] == ranks[window.end - 1] && sizes[window].iter().sum::<u64>() <= max_entries
    };
    let start = (0..(sizes.len() + 1).saturating_sub(fan)).rev().find(fits)?;
    Some(start..start + fan)
}

/// The entries of several runs as one ordered stream; memory is a read-ahead buffer a run.
pub(super) struct Merged {
    inputs: Vec<RunEntries>,
    heads: BinaryHeap<Reverse<(Entry, usize)>>,
}

impl Merged {
    pub(super) fn of(runs: &[Arc<Run>]) -> Result<Self, KeyIndexError> {
        let inputs = runs.iter().map(|run| RunEntries::of(Arc::clone(run))).collect();
        let mut merged = Self { inputs, heads: BinaryHeap::with_capacity(runs.len()) };
        for input in 0..runs.len() {
            merged.advance(input)?;
        }
        Ok(merged)
    }

    /// The next entry in order.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, KeyIndexError> {
        let Some(Reverse((entry, input))) = self.heads.pop() else { return Ok(None) };
        self.advance(input)?;
        Ok(Some(entry))
    }

    fn advance(&mut self, input: usize) -> Result<(), KeyIndexError> {
        if let Some(entry) = self.inputs[input].next().transpose()? {
            self.heads.push(Reverse((entry, input)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{KeyHasher, Options};

    #[test]
    fn nothing_is_merged_before_there_are_enough() {
        assert_eq!(choose(&[], 4, 1_000), None);
        assert_eq!(choose(&[10, 10, 10], 4, 1_000), None);
        assert_eq!(choose(&[10, 10, 10, 10], 4, 1_000), Some(0..4));
        assert_eq!(choose(&[10, 10, 10, 10], 4, 39), None);
    }

    #[test]
    fn the_newest_and_smallest_come_first() {
        assert_eq!(choose(&[40, 40, 40, 40, 10, 10, 10, 10], 4, 1_000), Some(4..8));
        assert_eq!(choose(&[40, 40, 40, 40, 10, 10, 10], 4, 1_000), Some(0..4));
        assert_eq!(choose(&[40, 40, 40, 10, 10, 10], 4, 1_000), None);
    }

    #[test]
    fn emptied_runs_do_not_pile_up_between_full_ones() {
        assert_eq!(choose(&[0, 40, 0, 40, 10], 4, 1_000), Some(0..4));
    }

    /// However runs come in, their number stays bounded: this is what keeps a lookup cheap.
    #[test]
    fn the_number_of_runs_stays_small() {
        let options = Options::new(&KeyHasher::new([0; 16]));
        let (fan, max) = (options.merge_fan, options.max_run_keys);
        let mut sizes: Vec<u64> = Vec::new();
        let mut rewritten = 0;
        for n in 0..800 {
            sizes.push(131_072 + n % 200);
            while let Some(window) = choose(&sizes, fan, max) {
                let sum = sizes[window.clone()].iter().sum();
                rewritten += sum;
                sizes.splice(window, [sum]);
            }
        }
        let total: u64 = sizes.iter().sum();
        assert!(rewritten <= 2 * total, "{rewritten} of {total} entries were rewritten");
        assert!(sizes.len() <= 800 / 16 + 2 * fan, "{} runs", sizes.len());
    }
}
