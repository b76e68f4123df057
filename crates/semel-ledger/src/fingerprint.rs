//! A hash per field of an input, so that a collision can name the fields that differ.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::key::hex;

/// An object with more fields is hashed as a whole: a fingerprint must stay smaller than what it stands for.
const MAX_FIELDS: usize = 64;

/// The fingerprint of an input: for each top-level field of an object, half a SHA-256 of its value. Anything else has one
/// hash, under the empty name.
///
/// It is kept in the store as a JSON object, the same from every language: values are hashed in the form of RFC 8785
/// (sorted members, numbers as ECMAScript writes them), so `1.0` is `1` and white space does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// Of whatever serialises to JSON. Leave out what differs between two deliveries of the same operation, such as the
    /// time of sending.
    pub fn of<T: Serialize + ?Sized>(input: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::of_value(&serde_json::to_value(input)?))
    }

    /// Of a JSON text.
    pub fn of_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(Self::of_value(&serde_json::from_slice(text)?))
    }

    /// Of a JSON value.
    pub fn of_value(input: &Value) -> Self {
        let fields = match input {
            Value::Object(fields) if fields.len() <= MAX_FIELDS => {
                fields.iter().map(|(name, value)| (name.clone(), hash(value))).collect()
            }
            other => BTreeMap::from([(String::new(), hash(other))]),
        };
        Self(fields)
    }

    /// The names of fields that differ, are missing in one, or new in the other; in order. Empty if nothing differs.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let differs = |name: &&String| self.0.get(*name) != other.0.get(*name);
        let mut names: Vec<&String> = self.0.keys().chain(other.0.keys()).filter(differs).collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .map(|name| if name.is_empty() { "(the input)".to_owned() } else { name.clone() })
            .collect()
    }

    /// How many hashes it has.
    pub(crate) fn fields(&self) -> usize {
        self.0.len()
    }

    /// As stores keep it: members sorted, no white space. Two are equal if their texts are.
    pub fn to_text(&self) -> String {
        serde_json::to_string(&self.0).expect("a map of strings serialises")
    }

    /// Reads what [`Fingerprint::to_text`] wrote.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

fn hash(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    hex(&Sha256::digest(text.as_bytes())[..16])
}

/// The form of RFC 8785.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => text.push_str(&ecma(number.as_f64().unwrap_or(f64::NAN))),
        Value::Array(items) => enclosed(text, ['[', ']'], items, canonical),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            enclosed(text, ['{', '}'], &members, |(name, value), text| {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
            });
        }
        // serde_json escapes strings just as RFC 8785 wants them.
        plain => text.push_str(&plain.to_string()),
    }
}

fn enclosed<T>(text: &mut String, [open, close]: [char; 2], items: &[T], each: impl Fn(&T, &mut String)) {
    text.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        each(item, text);
    }
    text.push(close);
}

/// A number as ECMAScript writes it: the shortest digits that read back the same, laid out by size.
fn ecma(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let shortest = format!("{:e}", number.abs());
    let (mantissa, exponent) = shortest.split_once('e').expect("this form has an exponent");
    let digits = mantissa.replace('.', "");
    let point = exponent.parse::<i32>().expect("the exponent is a small integer") + 1;
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", laid_out(&digits, point))
}

/// `digits` with the decimal point after the first `point` of them.
fn laid_out(digits: &str, point: i32) -> String {
    let count = i32::try_from(digits.len()).expect("a double has 17 digits at most");
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    match point {
        point if (count..=21).contains(&point) => format!("{digits}{}", zeros(point - count)),
        1..=21 => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).expect("it is at least 1"));
            format!("{whole}.{fraction}")
        }
        -5..=0 => format!("0.{}{digits}", zeros(-point)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            format!("{first}{dot}{rest}e{:+}", point - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-42.0, "-42"),
            (1.5, "1.5"),
            (1e21, "1e+21"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (1.23e-9, "1.23e-9"),
            (333_333_333.333_333_3, "333333333.3333333"),
            (5e-324, "5e-324"),
        ];
        for (number, text) in cases {
            assert_eq!(ecma(number), text);
        }
    }

    #[test]
    fn order_and_white_space_do_not_count() {
        let one = Fingerprint::of_json(br#"{"amount": 10.0, "to": {"b": [1, 2], "a": "x"}}"#).unwrap();
        let two = Fingerprint::of_json(br#"{"to":{"a":"x","b":[1,2]},"amount":10}"#).unwrap();
        assert_eq!(one, two);
        assert_eq!(one.differences(&two), Vec::<String>::new());
    }

    #[test]
    fn differences_are_named() {
        let one = Fingerprint::of_value(&json!({"amount": 10, "currency": "EUR", "note": "a"}));
        let two = Fingerprint::of_value(&json!({"amount": 20, "currency": "EUR", "tip": 1}));
        assert_eq!(one.differences(&two), ["amount", "note", "tip"]);
        assert_eq!(two.differences(&one), ["amount", "note", "tip"]);
        assert_eq!(one.differences(&Fingerprint::of_value(&json!(7))).last().unwrap(), "note");
    }

    #[test]
    fn it_survives_the_store() {
        let one = Fingerprint::of_value(&json!({"b": 1, "a": null}));
        assert_eq!(Fingerprint::from_text(&one.to_text()).unwrap(), one);
        assert!(one.to_text().starts_with(r#"{"a":""#));
    }

    #[test]
    fn a_large_map_has_one_hash() {
        let large: serde_json::Map<String, Value> = (0..100).map(|n| (format!("f{n}"), json!(n))).collect();
        assert_eq!(Fingerprint::of_value(&Value::Object(large)).0.len(), 1);
    }
}
