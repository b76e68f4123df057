//! Chance that can be repeated: the same seed always rolls the same numbers, on every machine and in every version.

/// A seeded source of numbers (splitmix64). Tests print their seed; the generator must therefore never change.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number from 0 to `bound - 1`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.roll()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the high half of a product of 64-bit numbers fits 64 bits")
    }

    /// A number within a range, both ends included.
    pub fn within(&mut self, range: std::ops::RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An index into something of that length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("an index below a length is a usize")
    }
}

/// A number that looks random and is always the same for `n`.
pub fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_rolls_the_same_numbers_for_ever() {
        let mut dice = Dice::new(1);
        assert_eq!([dice.roll(), dice.roll()], [0x910a_2dec_8902_5cc1, 0xbeeb_8da1_658e_ec67]);
    }

    #[test]
    fn numbers_stay_in_their_range_and_fill_it() {
        let mut dice = Dice::new(7);
        let rolled: Vec<_> = (0..1000).map(|_| dice.within(3..=6)).collect();
        assert!((3..=6).all(|n| rolled.contains(&n)) && rolled.iter().all(|n| (3..=6).contains(n)));
        assert_eq!(Dice::new(9).below(1), 0);
    }
}
