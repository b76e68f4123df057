//! Values as people write them: spans of time, sizes, lists.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use toml::Value;

const SPANS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// A span of time: `"30s"`, or a whole number of seconds.
pub(super) fn span(value: &Value) -> Result<Duration, String> {
    let wrong = || {
        let units = names(&SPANS);
        format!(
            "{value} is not a span of time: write a whole number and one of {units}, such as \"30s\"; without a unit it is seconds"
        )
    };
    measure(value, &SPANS, 1000).map(Duration::from_millis).ok_or_else(wrong)
}

/// A size in bytes: `"256KiB"`, or a whole number of bytes.
pub(super) fn size(value: &Value) -> Result<usize, String> {
    let wrong = || {
        let units = names(&SIZES);
        format!(
            "{value} is not a size: write a whole number and one of {units}, such as \"256KiB\"; without a unit it is bytes"
        )
    };
    measure(value, &SIZES, 1).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(wrong)
}

/// A whole number with a unit, in the smallest unit; `bare` is the size of the one that goes without saying.
fn measure(value: &Value, units: &[(&str, u64)], bare: u64) -> Option<u64> {
    let (number, unit) = match value {
        Value::Integer(number) => (u64::try_from(*number).ok()?, bare),
        Value::String(text) => {
            let text = text.trim();
            let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let (number, unit) = (text[..digits].parse().ok()?, text[digits..].trim_start());
            let named = |unit| units.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size);
            (number, if unit.is_empty() { bare } else { named(unit)? })
        }
        _ => return None,
    };
    number.checked_mul(unit)
}

fn names(units: &[(&str, u64)]) -> String {
    units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// A whole number.
pub(super) fn count<T: TryFrom<u64>>(value: &Value) -> Result<T, String> {
    let number = match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let wrong = || format!("{value} is not a whole number in range");
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(wrong)
}

/// A share: a number, usually from 0 to 1.
pub(super) fn share(value: &Value) -> Result<f64, String> {
    let number = match value {
        Value::Float(number) => Some(*number),
        Value::Integer(0) => Some(0.0),
        Value::Integer(1) => Some(1.0),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| format!("{value} is not a share: write a number from 0 to 1, such as 0.1"))
}

/// Yes or no.
pub(super) fn flag(value: &Value) -> Result<bool, String> {
    match value {
        Value::Boolean(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(format!("{value} is neither true nor false")),
    }
}

/// Text that is not empty.
pub(super) fn text(value: &Value) -> Result<&str, String> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text),
        _ => Err(format!("{value} is not text, or is empty")),
    }
}

/// Text that means something; `what` says what it should have been.
pub(super) fn parsed<T: FromStr<Err: Display>>(value: &Value, what: &str) -> Result<T, String> {
    text(value)?.trim().parse().map_err(|e| format!("{value} is not {what}: {e}"))
}

/// A list of texts: an array, or in the environment and on the command line one text with commas.
pub(super) fn list(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(items) => Ok(items.clone()),
        Value::String(text) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(items.map(Value::from).collect())
        }
        _ => Err(format!("{value} is not a list of texts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_read_as_people_write_them() {
        for (text, seconds) in
            [("30s", 30), ("5m", 300), ("2h", 7200), ("7d", 604_800), ("45", 45), (" 1 h ", 3600)]
        {
            assert_eq!(span(&text.into()), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(span(&"250ms".into()), Ok(Duration::from_millis(250)));
        assert_eq!(span(&Value::Integer(12)), Ok(Duration::from_secs(12)));
        for (text, bytes) in
            [("256KiB", 262_144), ("1 MiB", 1 << 20), ("2GiB", 2 << 30), ("100B", 100), ("7", 7)]
        {
            assert_eq!(size(&text.into()), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_bad_unit_is_named_with_those_there_are() {
        for text in
            ["30sec", "5M", "s", "", "-1s", "1.5h", "1h30m", "99999999999999999999d", "999999999999999999d"]
        {
            let error = span(&text.into()).unwrap_err();
            assert!(error.contains(text) && error.contains("ms, s, m, h, d"), "{text}: {error}");
        }
        for text in ["256KB", "1mb", "MiB", "-5B", "1e3", "99999999999GiB"] {
            let error = size(&text.into()).unwrap_err();
            assert!(error.contains(text) && error.contains("B, KiB, MiB, GiB"), "{text}: {error}");
        }
        assert!(span(&Value::Float(1.5)).is_err() && size(&Value::Boolean(true)).is_err());
        assert!(span(&Value::Integer(-1)).is_err());
    }

    #[test]
    fn a_list_is_an_array_or_text_with_commas() {
        let array = Value::Array(vec!["a".into(), "b".into()]);
        assert_eq!(list(&array), list(&"a, b,".into()));
        assert!(list(&Value::Integer(1)).is_err());
    }
}
