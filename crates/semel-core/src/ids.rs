//! Ids of jobs and fencing tokens of their leases: integers inside, short sortable text outside.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::violation::Violations;

/// Ids count milliseconds from 2025-01-01T00:00:00Z: 41 bits then last until 2094.
const EPOCH_MS: u64 = 1_735_689_600_000;
/// Bits for the node lane: 1024 nodes may make ids for one store at the same time.
const LANE_BITS: u32 = 10;
/// Bits for the sequence: 4096 ids per lane and millisecond before the generator runs ahead of the clock.
const SEQUENCE_BITS: u32 = 12;
/// Largest lane number.
pub const LANE_MAX: u16 = (1 << LANE_BITS) - 1;

/// The id of a job: a 63-bit integer, milliseconds | lane | sequence.
///
/// It orders by time, so it can be the row key of an append-only table, and it never changes: not on retry, not on
/// replay, not when a store is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(u64);

impl JobId {
    /// The smallest id there can be; no generator hands it out.
    pub const ZERO: Self = Self(0);

    /// An id from its integer form. The sign bit is never used, so that it fits SQL's signed 64-bit columns.
    pub const fn from_raw(raw: u64) -> Option<Self> {
        if raw > i64::MAX as u64 { None } else { Some(Self(raw)) }
    }

    /// The integer form.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The millisecond the id was made for. The generator may run a little ahead of the clock under bursts.
    pub const fn time(self) -> Timestamp {
        Timestamp::from_millis((self.0 >> (LANE_BITS + SEQUENCE_BITS)) + EPOCH_MS)
    }

    /// The smallest id that a job published at `time` or later can have.
    pub const fn first_at(time: Timestamp) -> Self {
        let ms = time.millis().saturating_sub(EPOCH_MS);
        let most = (i64::MAX as u64) >> (LANE_BITS + SEQUENCE_BITS);
        Self((if ms > most { most } else { ms }) << (LANE_BITS + SEQUENCE_BITS))
    }
}

/// Makes ids: strictly increasing in its lane, whatever the clock does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdGenerator {
    lane: u64,
    last: u64,
}

impl IdGenerator {
    /// A generator for one lane. Two generators of one store never share a lane at the same time.
    pub fn new(lane: u16) -> Self {
        Self { lane: u64::from(lane.min(LANE_MAX)), last: 0 }
    }

    /// Continues above an id already handed out, as after a restart with a clock that went back.
    pub fn resume_above(&mut self, id: JobId) {
        self.last = self.last.max(id.0);
    }

    /// The next id.
    pub fn next(&mut self, now: Timestamp) -> JobId {
        let from_clock = JobId::first_at(now).0 | (self.lane << SEQUENCE_BITS);
        self.last = if from_clock > self.last { from_clock } else { self.successor() };
        JobId(self.last)
    }

    /// The id after the last one: the next sequence number, or the first of the next millisecond when this one is full
    /// or belongs to another lane.
    fn successor(&self) -> u64 {
        let next = self.last + 1;
        let lane_of = |id: u64| (id >> SEQUENCE_BITS) & u64::from(LANE_MAX);
        if lane_of(next) == self.lane {
            return next;
        }
        let shift = LANE_BITS + SEQUENCE_BITS;
        let in_this_ms = (self.last >> shift << shift) | (self.lane << SEQUENCE_BITS);
        if in_this_ms > self.last { in_this_ms } else { in_this_ms + (1 << shift) }
    }
}

/// The fencing token of a lease: who may settle this delivery.
///
/// Tokens of one job strictly increase, also across crashes, because the store makes a new epoch durable before it
/// hands out the first token of that epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(u64);

impl Token {
    /// Bits of the counter within an epoch: a trillion leases before a store must be reopened.
    const COUNTER_BITS: u32 = 40;

    /// The first token of an epoch.
    pub const fn first(epoch: u32) -> Self {
        Self((epoch as u64) << Self::COUNTER_BITS)
    }

    /// The token after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// A token from its integer form.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The integer form.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// Crockford's alphabet: no letter can be mistaken for a digit, and its order is that of the values.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 13 characters of 5 bits hold 64 bits; a fixed width makes text order the order of the integers.
const WIDTH: u32 = 13;

/// The digit that a byte stands for, [`NO_DIGIT`] if it stands for none.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        #[expect(clippy::cast_possible_truncation, reason = "there are 32 digits")]
        {
            digits[ALPHABET[digit] as usize] = digit as u8;
        }
        digit += 1;
    }
    digits
};

const NO_DIGIT: u8 = u8::MAX;

/// An answer about a hundred jobs has hundreds of these, so each is written at once and not letter by letter.
fn write_base32(f: &mut fmt::Formatter<'_>, prefix: &str, raw: u64) -> fmt::Result {
    let mut letters = [0; WIDTH as usize];
    for (letter, place) in letters.iter_mut().zip((0..WIDTH).rev()) {
        let digit = (raw >> (5 * place)) & 31;
        *letter = ALPHABET[usize::try_from(digit).expect("five bits fit a usize")];
    }
    f.write_str(prefix)?;
    f.write_str(std::str::from_utf8(&letters).expect("the alphabet is ASCII"))
}

fn read_base32(prefix: &str, text: &str) -> Option<u64> {
    let digits = text.strip_prefix(prefix)?;
    if digits.len() != WIDTH as usize {
        return None;
    }
    digits.bytes().try_fold(0u64, |value, byte| match DIGITS[usize::from(byte)] {
        NO_DIGIT => None,
        digit => value.checked_mul(32)?.checked_add(u64::from(digit)),
    })
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base32(f, "job_", self.0)
    }
}

impl FromStr for JobId {
    type Err = Violations;

    fn from_str(text: &str) -> Result<Self, Violations> {
        read_base32("job_", text).and_then(Self::from_raw).ok_or_else(|| {
            Violations::one("id", "a job id is 'job_' and 13 base32 characters, as a publish returned it")
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base32(f, "lse_", self.0)
    }
}

/// The name of a delivery, for logs. A token is given out once, so it names the delivery too; but a name opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryId(Token);

impl From<Token> for DeliveryId {
    fn from(token: Token) -> Self {
        Self(token)
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base32(f, "dlv_", self.0.0)
    }
}

impl FromStr for Token {
    type Err = Violations;

    fn from_str(text: &str) -> Result<Self, Violations> {
        read_base32("lse_", text).map(Self).ok_or_else(|| {
            Violations::one(
                "lease",
                "a lease token is 'lse_' and 13 base32 characters, as the delivery carried it",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(EPOCH_MS + ms)
    }

    #[test]
    fn ids_follow_time_and_never_go_back() {
        let mut ids = IdGenerator::new(3);
        let first = ids.next(at(10));
        let second = ids.next(at(10));
        let after_a_jump_back = ids.next(at(2));
        assert!(first < second && second < after_a_jump_back);
        assert_eq!(first.time(), at(10));
        assert!(ids.next(at(50)) >= JobId::first_at(at(50)));
    }

    #[test]
    fn a_full_millisecond_runs_ahead_of_the_clock_within_its_lane() {
        let mut ids = IdGenerator::new(LANE_MAX);
        let all: Vec<_> = (0..10_000).map(|_| ids.next(at(1))).collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        assert!(
            all.iter().all(|id| (id.raw() >> SEQUENCE_BITS) & u64::from(LANE_MAX) == u64::from(LANE_MAX))
        );
    }

    #[test]
    fn two_lanes_never_make_the_same_id() {
        let (mut a, mut b) = (IdGenerator::new(0), IdGenerator::new(1));
        let mut all: Vec<_> = (0..9000).flat_map(|i| [a.next(at(i / 4000)), b.next(at(i / 4000))]).collect();
        all.sort_unstable();
        assert!(all.is_sorted_by(|x, y| x < y));
    }

    #[test]
    fn a_generator_resumes_above_ids_of_any_lane() {
        let mut old = IdGenerator::new(7);
        let seen = old.next(at(100));
        let mut new = IdGenerator::new(2);
        new.resume_above(seen);
        assert!(new.next(at(0)) > seen);
    }

    #[test]
    fn what_is_not_an_id_is_refused() {
        for bad in
            ["", "job_", "job_0000000000000x", "lse_0000000000001", "job_zzzzzzzzzzzzz", "job_000000000000I"]
        {
            assert!(JobId::from_str(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_and_integer_are_the_same_order(a in 0..=i64::MAX as u64, b in 0..=i64::MAX as u64) {
            let (x, y) = (JobId(a), JobId(b));
            prop_assert_eq!(x.to_string().parse::<JobId>().unwrap(), x);
            prop_assert_eq!(a.cmp(&b), x.to_string().cmp(&y.to_string()));
        }

        #[test]
        fn tokens_survive_text(raw: u64) {
            prop_assert_eq!(Token(raw).to_string().parse::<Token>().unwrap(), Token(raw));
        }

        #[test]
        fn a_later_epoch_is_above_every_token_before(epoch in 0u32..0x00ff_ffff, n in 0u64..1 << 40) {
            prop_assert!(Token(Token::first(epoch).0 + n) < Token::first(epoch + 1));
        }
    }
}
