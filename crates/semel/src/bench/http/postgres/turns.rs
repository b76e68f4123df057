//! Two sides that take turns, several times a round, because a machine changes its pace within seconds.

use super::super::load::Load;
use super::spent::{Look, Spent};
use crate::failure::Failure;

/// Whose turn it is. Whatever changes steadily while they take turns, such as the size of the log, touches both alike.
const TURNS: [Side; 6] = [Side::Base, Side::Other, Side::Other, Side::Base, Side::Base, Side::Other];

/// One of two that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// What is compared to.
    Base,
    /// What is compared.
    Other,
}

/// The rates of both, a turn each, and what they spent.
#[derive(Debug)]
pub(super) struct Pair {
    rates: [Vec<f64>; 2],
    /// What either side spent, and on how many jobs.
    spent: [(Spent, u64); 2],
}

impl Pair {
    /// The rate of a side over all of its turns.
    pub(super) fn rate(&self, side: Side) -> f64 {
        let rates = &self.rates[side as usize];
        // As many jobs in each turn: what all of them took together is the harmonic mean of the rates.
        #[expect(clippy::cast_precision_loss, reason = "there are a few turns")]
        let turns = rates.len() as f64;
        turns / rates.iter().map(|rate| rate.recip()).sum::<f64>()
    }

    /// The other side against the base, over all turns.
    pub(super) fn ratio(&self) -> f64 {
        self.rate(Side::Other) / self.rate(Side::Base)
    }

    /// What a side spent, and on how many jobs.
    pub(super) fn spent(&self, side: Side) -> (Spent, u64) {
        self.spent[side as usize]
    }
}

/// Lets both sides publish in turns, so many jobs a turn, and looks what they have spent before and after.
pub(super) fn take(
    jobs: u64,
    mut over: impl FnMut(Side, u64) -> Result<Load, Failure>,
    look: impl Fn(Side) -> Result<Look, Failure>,
) -> Result<Pair, Failure> {
    let mut pair = Pair { rates: Default::default(), spent: Default::default() };
    for side in [Side::Other, Side::Base] {
        // What a start brings with it is over by then, and nodes have heard of each other that they are busy.
        over(side, jobs)?;
    }
    for side in TURNS {
        // While the other had its turn everything became cold.
        over(side, jobs / 5)?;
        let before = look(side)?;
        pair.rates[side as usize].push(over(side, jobs)?.per_second());
        let (spent, on) = &mut pair.spent[side as usize];
        *spent += look(side)?.since(&before);
        *on += jobs;
    }
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::load;
    use super::*;

    #[test]
    fn both_sides_have_as_many_turns_and_neither_is_always_first() {
        let places = |side| (0..TURNS.len()).filter(move |place| TURNS[*place] == side);
        assert_eq!(places(Side::Base).count(), places(Side::Other).count());
        let firsts: Vec<_> = TURNS.chunks(2).map(|pair| pair[0]).collect();
        assert!(firsts.contains(&Side::Base) && firsts.contains(&Side::Other));
    }

    #[test]
    fn a_rate_is_all_jobs_over_all_of_the_time_that_counts() {
        // The one takes a second a turn, then two, then three; the other takes two each time. What is warm-up counts for nobody.
        let mut turn = 0;
        let over = |side, jobs| {
            let seconds = match side {
                _ if jobs < 600 => 1000,
                Side::Other => 2,
                Side::Base => {
                    turn += 1;
                    if turn == 1 { 1000 } else { turn - 1 }
                }
            };
            Ok(Load { jobs, took: Duration::from_secs(seconds), latency: load::histogram() })
        };
        let pair = take(600, over, |_| Ok(Look::default())).unwrap();
        assert!(
            [Side::Base, Side::Other].iter().all(|side| (pair.rate(*side) - 300.0).abs() < 1e-6),
            "{pair:?}"
        );
        assert!((pair.ratio() - 1.0).abs() < 1e-9);
        assert_eq!(pair.spent(Side::Other).1, 1800, "as many as were timed");
    }
}
