//! What a key looks like: whether two keys of the same payload differ by something that was minted for each of them.

use std::ops::Range;
use std::sync::LazyLock;

use jiff::civil;
use jiff::tz::TimeZone;
use regex::{Captures, Regex};
use semel_core::time::{Millis, Timestamp};

/// How far from now a number or a date may be and still be taken for the time of a publish. Order numbers of ten digits are
/// many; one of them being this close to the seconds since 1970 would be an accident.
const NEAR: Millis = Millis::from_hours(1);

/// How long before its publish the time in a key was taken, if it was taken for the publish.
const MINTED_WITHIN: Millis = Millis::from_secs(60);

/// How many letters and digits a random part has at least: four bytes in hexadecimal.
const RANDOM_MIN: usize = 8;

/// How often letters and digits take turns in two random parts at least: half as often as in eight hexadecimal digits.
const RANDOM_TURNS: usize = 4;

/// In what two keys of the same payload differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// In a part that looks random.
    Random,
    /// In a time close to now, and in nothing else.
    Time,
    /// In something that a person or a database may have chosen.
    Other,
}

/// In what two keys differ.
pub(super) fn difference(one: &str, other: &str, now: Timestamp) -> Difference {
    if let (Some(a), Some(b)) = (time_in(one, now), time_in(other, now))
        && a.at != b.at
        && without(one, &a.range) == without(other, &b.range)
    {
        return Difference::Time;
    }
    let (a, b) = differing_parts(one, other);
    if look_random(a, b) { Difference::Random } else { Difference::Other }
}

/// Whether a key contains the time of its own publish: taken shortly before, and to the second or finer. A round time is more
/// likely the tick of a clock that the job belongs to, which is what a key should be made of.
pub(super) fn contains_its_time(key: &str, now: Timestamp) -> bool {
    time_in(key, now).is_some_and(|found| {
        let age = now.since(found.at);
        !found.is_round && age <= MINTED_WITHIN && found.at.since(now) <= Millis::from_secs(5)
    })
}

/// A time that was found in a key.
struct Found {
    range: Range<usize>,
    at: Timestamp,
    is_round: bool,
}

/// A date with a time of day to the second, with or without separators.
static CALENDAR: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(\d{4})-?(\d{2})-?(\d{2})[T _-]?(\d{2})[:-]?(\d{2})[:-]?(\d{2})(?:[.,](\d{1,9}))?Z?";
    Regex::new(pattern).expect("the pattern is a constant")
});

/// Digits that may be a time since 1970; how many there are says in which unit.
static EPOCH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d{10,}").expect("the pattern is a constant"));

/// The first time close to now in a key.
fn time_in(key: &str, now: Timestamp) -> Option<Found> {
    let near = |found: &Found| now.since(found.at) <= NEAR && found.at.since(now) <= NEAR;
    let epochs = EPOCH.find_iter(key).filter_map(|found| epoch(found.as_str(), found.range()));
    let dates = CALENDAR.captures_iter(key).filter_map(|found| calendar(&found));
    epochs.chain(dates).find(near)
}

fn epoch(digits: &str, range: Range<usize>) -> Option<Found> {
    let number: u64 = digits.parse().ok()?;
    let millis = match digits.len() {
        10 => number.checked_mul(1000)?,
        13 => number,
        16 => number / 1000,
        19 => number / 1_000_000,
        _ => return None,
    };
    // To the second, one in five is round by accident; to the millisecond, one in a thousand.
    let is_round = if digits.len() == 10 { number.is_multiple_of(5) } else { millis.is_multiple_of(1000) };
    Some(Found { range, at: Timestamp::from_millis(millis), is_round })
}

fn calendar(found: &Captures<'_>) -> Option<Found> {
    let part = |i: usize| found.get(i)?.as_str().parse::<i16>().ok();
    let small = |i: usize| part(i).and_then(|n| i8::try_from(n).ok());
    let date =
        civil::DateTime::new(part(1)?, small(2)?, small(3)?, small(4)?, small(5)?, small(6)?, 0).ok()?;
    let seconds = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    let fraction = found.get(7).map_or("", |digits| digits.as_str());
    let thousandths: u64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let millis = u64::try_from(seconds).ok()?.checked_mul(1000)?.checked_add(thousandths)?;
    let is_round = if fraction.is_empty() { seconds % 5 == 0 } else { thousandths == 0 };
    Some(Found { range: found.get(0)?.range(), at: Timestamp::from_millis(millis), is_round })
}

fn without(key: &str, range: &Range<usize>) -> String {
    format!("{}\u{0}{}", &key[..range.start], &key[range.end..])
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// The parts in which two keys differ, grown to whole words: `order-17-6fa9c0d2` and `order-17-6fb1e3aa` differ in the last
/// one, not in its last five characters.
fn differing_parts<'a>(one: &'a str, other: &'a str) -> (&'a str, &'a str) {
    let (a, b) = (one.as_bytes(), other.as_bytes());
    let mut start = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    while start > 0 && is_of_token(a[start - 1]) {
        start -= 1;
    }
    let most = a.len().min(b.len()) - start.min(a.len().min(b.len()));
    let mut end = a.iter().rev().zip(b.iter().rev()).take(most).take_while(|(x, y)| x == y).count();
    while end > 0 && is_of_token(a[a.len() - end]) {
        end -= 1;
    }
    // A cut in the middle of a character that is not ASCII leaves nothing, and nothing does not look random.
    let part = |text: &'a str| text.get(start..text.len() - end).unwrap_or_default();
    (part(one), part(other))
}

/// Whether two parts look as if each had been drawn: letters and digits mixed up, about as long as each other, and different
/// nearly everywhere. A counter differs in its last digit; names have no digits, numbers no letters, and `invoice-8812` has
/// them one after the other.
fn look_random(one: &str, other: &str) -> bool {
    let (Some(a), Some(b)) = (token(one), token(other)) else { return false };
    let shorter = a.len().min(b.len());
    let differ = a.iter().zip(&b).filter(|(x, y)| x != y).count();
    shorter >= RANDOM_MIN
        && a.len().abs_diff(b.len()) <= 2
        && differ * 2 >= shorter
        && turns(&a) + turns(&b) >= RANDOM_TURNS
}

/// How often digits, small letters and capitals take turns.
fn turns(token: &[u8]) -> usize {
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    token.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count()
}

/// The letters and digits of a part that has nothing else but dashes and underscores.
fn token(part: &str) -> Option<Vec<u8>> {
    let fits = part.bytes().all(|byte| is_of_token(byte) || matches!(byte, b'-' | b'_'));
    fits.then(|| part.bytes().filter(|byte| is_of_token(*byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-15T12:00:00Z.
    const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);

    #[test]
    fn what_was_minted_for_a_retry_is_told_from_what_somebody_chose() {
        use Difference::{Other, Random, Time};
        let cases = [
            ("550e8400-e29b-41d4-a716-446655440000", "f47ac10b-58cc-4372-a567-0e02b2c3d479", Random),
            ("order-17-6fa9c0d2", "order-17-6fb1e3aa", Random),
            ("01JCQ3W8ZB4N5M6P7Q8R9S0T1V", "01JCQ3W9F0XK2Y3D4G5H6J7K8M", Random),
            ("pay_V1StGXR8_Z5jdHi6B", "pay_q0XkTz9A-3mWcLp7R", Random),
            ("order-17-1794743990123", "order-17-1794744000456", Time),
            ("order-17-1794743990", "order-17-1794744001", Time),
            ("order-17-2026-11-15T11:59:31.5Z", "order-17-2026-11-15T12:00:02.25Z", Time),
            ("mail:20261115115931:alice", "mail:20261115120002:alice", Time),
            ("order-17", "order-18", Other),
            ("order-00000017", "order-00000018", Other),
            ("customer-48215539", "customer-99631207", Other),
            ("welcome-alexander", "welcome-katherine", Other),
            ("invoice-88129930", "payment-11739011", Other),
            ("order-17-1794743990123", "order-18-1794744000456", Other),
            ("größe-1", "größe-2", Other),
            ("report-2025-01-31", "report-2025-02-28", Other),
            ("a", "ab", Other),
            ("", "x", Other),
            ("ä", "ö", Other),
        ];
        for (one, other, expected) in cases {
            assert_eq!(difference(one, other, NOW), expected, "{one} {other}");
            assert_eq!(difference(other, one, NOW), expected, "{other} {one}");
        }
    }

    #[test]
    fn a_key_with_the_time_of_its_publish_is_recognised_and_a_tick_is_not() {
        for minted in [
            "evt-1794743999871",
            "1794743998",
            "2026-11-15T11:59:59.871Z",
            "x:20261115T115958",
            "1794743999871000000",
        ] {
            assert!(contains_its_time(minted, NOW), "{minted}");
        }
        for chosen in [
            "report-2026-11-15T12:00:00Z",
            "report-2026-11-15",
            "tick-1794744000",
            "order-1794100000",
            "01JCQ3W8ZB4N5M6P7Q8R9S0T1V",
            "0199e0a4-7c31-7a2b-9f3e-1a2b3c4d5e6f",
            "17947439998710000000000",
            "9999-99-99T99:99:99",
            "order-17",
        ] {
            assert!(!contains_its_time(chosen, NOW), "{chosen}");
        }
    }
}
