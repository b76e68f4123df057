//! What a relay did, in numbers.

/// What a relay did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Rows whose jobs the server has, new or from before.
    pub carried: u64,
    /// Those of them that the server had already: an earlier try was not answered, or a relay died in between.
    pub known: u64,
    /// Rows that the server refused.
    pub refused: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.carried += other.carried;
        self.known += other.known;
        self.refused += other.refused;
    }
}
