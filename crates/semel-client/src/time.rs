//! Times and spans as the API writes them.

use std::time::{Duration, SystemTime};

#[cfg(any(feature = "http", feature = "webhook"))]
use serde::{Deserialize, Deserializer, de::Error as _};

/// A time as RFC 3339. One that no calendar has, past the year 9999, is the last that has a name: the server refuses it
/// with words, and this need not.
pub(crate) fn text(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// Whole seconds, rounded up: a job that was to wait must not run early.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

#[cfg(any(feature = "http", feature = "webhook"))]
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
    Ok(time.into())
}

#[cfg(any(feature = "webhook", feature = "worker"))]
pub(crate) fn write<S: serde::Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}

#[cfg(feature = "http")]
pub(crate) fn read_maybe<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SystemTime>, D::Error> {
    #[derive(Deserialize)]
    struct Time(#[serde(deserialize_with = "read")] SystemTime);
    Ok(Option::<Time>::deserialize(deserializer)?.map(|time| time.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_text() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_794_744_000_123);
        assert_eq!(text(time), "2026-11-15T12:00:00.123Z");
        let mut json = serde_json::Deserializer::from_str("\"2026-11-15T12:00:00.123Z\"");
        assert_eq!(read(&mut json).unwrap(), time);
        assert_eq!(read_maybe(&mut serde_json::Deserializer::from_str("null")).unwrap(), None);
    }

    #[test]
    fn a_wait_is_never_shortened() {
        assert_eq!(whole_seconds(Duration::ZERO), 0);
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(2)), 2);
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }
}
