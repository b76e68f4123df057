//! When a schedule ticks: a cron expression, read in a time zone.
//!
//! An expression has five fields (minute, hour, day of month, month, day of week), or six with seconds in front, or is
//! one of `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. There is no field for years: a schedule repeats.
//!
//! What happens when clocks are set forward or back is what Vixie cron does:
//!
//! - An expression with one fixed time of day (`30 2 * * *`) ticks once a day, always. When clocks skip that time, it ticks
//!   at the first moment after the gap; when that time comes twice, at the first of the two.
//! - Any other (`*/15 * * * *`) ticks as real time passes: nothing for the hour that is skipped, and again in the hour that
//!   comes twice. Two such ticks are two moments, so they have two keys.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use jiff::tz::TimeZone;
use semel_core::time::Timestamp;
use semel_core::violation::Violations;

/// Longest expression, in bytes. Each field is a list at most; this is plenty for all of them.
const CRON_MAX: usize = 255;

/// The ticks of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Calendar {
    cron: Cron,
    zone: TimeZone,
}

impl Calendar {
    /// Reads an expression and a zone, and says what is wrong with both at once.
    pub(crate) fn parse(cron: &str, zone: &str) -> Result<Self, Violations> {
        let mut wrong = Violations::default();
        let cron = parse_cron(cron).map_err(|problem| wrong.add("cron", problem)).ok();
        let zone = parse_zone(zone).map_err(|problem| wrong.add("zone", problem)).ok();
        match cron.zip(zone) {
            Some((cron, zone)) => Ok(Self { cron, zone }),
            None => Err(wrong),
        }
    }

    /// The first tick after `at`; an error if there is none, ever.
    pub(crate) fn after(&self, at: Timestamp) -> Result<Timestamp, Violations> {
        let never = || Violations::one("cron", "never fires: no such day will come");
        let from = self.whole_second(at).ok_or_else(never)?;
        let tick = self.cron.find_next_occurrence(&from, false).map_err(|_| never())?;
        instant(&tick).filter(|tick| *tick > at).ok_or_else(never)
    }

    /// The latest tick that is not after `at`; `None` if there was none.
    pub(crate) fn latest(&self, at: Timestamp) -> Option<Timestamp> {
        let from = self.whole_second(at)?;
        let tick = self.cron.find_previous_occurrence(&from, true).ok()?;
        instant(&tick).filter(|tick| *tick <= at)
    }

    /// The moment on the wall of the zone. Ticks are whole seconds, so what is left of a second is cut off.
    fn whole_second(&self, at: Timestamp) -> Option<Zoned> {
        let seconds = i64::try_from(at.millis() / 1000).ok()?;
        Some(jiff::Timestamp::from_second(seconds).ok()?.to_zoned(self.zone.clone()))
    }
}

/// A tick as it stands in keys: RFC 3339 in UTC.
pub(crate) fn in_words(tick: Timestamp) -> String {
    let millis = i64::try_from(tick.millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn instant(tick: &Zoned) -> Option<Timestamp> {
    u64::try_from(tick.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
}

fn parse_cron(text: &str) -> Result<Cron, String> {
    const FORM: &str = "five fields such as \"30 2 * * MON\", or six with seconds in front";
    if text.len() > CRON_MAX {
        return Err(format!("must be at most {CRON_MAX} bytes long"));
    }
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    parser.parse(text).map_err(|error| format!("is not a cron expression ({FORM}): {error}"))
}

fn parse_zone(text: &str) -> Result<TimeZone, String> {
    let unknown = || "is not a known time zone: name one such as UTC or Europe/Berlin".to_owned();
    let zone = TimeZone::get(text).map_err(|_| unknown())?;
    if zone.is_unknown() { Err(unknown()) } else { Ok(zone) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let time: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_millis(u64::try_from(time.as_millisecond()).unwrap())
    }

    fn ticks(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let calendar = Calendar::parse(cron, zone).unwrap();
        let next = |tick: &Timestamp| Some(calendar.after(*tick).unwrap());
        std::iter::successors(Some(at(from)), next).skip(1).take(count).map(in_words).collect()
    }

    fn fields(cron: &str, zone: &str) -> Vec<String> {
        let found =
            Calendar::parse(cron, zone).and_then(|calendar| calendar.after(at("2026-11-15T12:00:00Z")));
        found.err().map(|v| v.iter().map(|v| v.field.clone()).collect()).unwrap_or_default()
    }

    #[test]
    fn what_is_wrong_is_named() {
        for cron in
            ["", "* * * *", "*/0 * * * *", "60 * * * *", "* * * * * * *", "@reboot", "a b c d e", "é", "@"]
        {
            assert_eq!(fields(cron, "UTC"), ["cron"], "{cron:?}");
        }
        assert_eq!(fields(&"0,".repeat(200), "UTC"), ["cron"]);
        for never in ["* * 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            assert_eq!(fields(never, "UTC"), ["cron"], "{never:?}");
        }
        for zone in ["", "Mars/Olympus", "Etc/Unknown", "../etc/passwd", "UTC+1"] {
            assert_eq!(fields("* * * * *", zone), ["zone"], "{zone:?}");
        }
        assert_eq!(fields("*/0 * * * *", "Mars"), ["cron", "zone"]);
    }

    #[test]
    fn five_fields_tick_by_the_minute_and_six_by_the_second() {
        let from = "2026-11-15T12:00:00.250Z";
        assert_eq!(ticks("* * * * *", "UTC", from, 2), ["2026-11-15T12:01:00Z", "2026-11-15T12:02:00Z"]);
        assert_eq!(ticks("*/20 * * * * *", "UTC", from, 2), ["2026-11-15T12:00:20Z", "2026-11-15T12:00:40Z"]);
        assert_eq!(ticks("@daily", "Asia/Tokyo", from, 1), ["2026-11-15T15:00:00Z"]);
        assert_eq!(ticks("0 0 29 2 *", "UTC", from, 1), ["2028-02-29T00:00:00Z"]);
    }

    #[test]
    fn a_fixed_time_that_is_skipped_ticks_right_after_the_gap() {
        let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
        assert_eq!(ticks("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3), expected);
    }

    #[test]
    fn a_fixed_time_that_comes_twice_ticks_once() {
        let expected = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        assert_eq!(ticks("30 2 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", 3), expected);
    }

    #[test]
    fn an_interval_follows_real_time_through_both() {
        let spring = ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"];
        assert_eq!(ticks("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3), spring);
        let autumn =
            ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"];
        assert_eq!(ticks("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 4), autumn);
    }

    /// Going back from any moment must give the tick that going forward gave, or a tick would have two keys.
    #[test]
    fn the_latest_tick_is_the_last_of_those_that_came() {
        for (cron, zone, from) in [
            ("30 2 * * *", "Europe/Berlin", "2026-03-27T00:00:00Z"),
            ("30 2 * * *", "Europe/Berlin", "2026-10-23T00:00:00Z"),
            ("*/30 * * * *", "Europe/Berlin", "2026-03-28T22:00:00Z"),
            ("*/30 * * * *", "Europe/Berlin", "2026-10-24T22:00:00Z"),
            ("15 1,2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z"),
            ("15 1,2 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z"),
        ] {
            let calendar = Calendar::parse(cron, zone).unwrap();
            let mut tick = calendar.after(at(from)).unwrap();
            for _ in 0..12 {
                let next = calendar.after(tick).unwrap();
                for now in [tick.millis(), tick.millis() + 999, next.millis() - 1] {
                    let latest = calendar.latest(Timestamp::from_millis(now)).map(in_words);
                    assert_eq!(latest, Some(in_words(tick)), "{cron} {zone}, asked at {now}");
                }
                tick = next;
            }
        }
    }
}
