//! What several resources share on the wire: times, spans, raw JSON, and how a body is read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use semel_core::payload::Payload;
use semel_core::time::{Millis, Timestamp};
use semel_core::violation::Violations;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::code::Code;
use super::problem::Problem;

/// A time, as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(super) Timestamp);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0.millis()).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{time:.3}")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Time {
    /// Reads a time.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let time: jiff::Timestamp =
            text.parse().map_err(|_| "must be a time such as 2026-11-15T12:00:00Z (RFC 3339)".to_owned())?;
        let millis =
            u64::try_from(time.as_millisecond()).map_err(|_| "must not be before 1970".to_owned())?;
        Ok(Self(Timestamp::from_millis(millis)))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

/// An id, written as its text without being made a text of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id<T>(pub(super) T);

impl<T: fmt::Display> Serialize for Id<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A span in seconds. Fractions down to a millisecond are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seconds(pub(super) Millis);

/// More seconds than any setting takes; the settings say what they take.
const SECONDS_MAX: f64 = 1e11;

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return Err(D::Error::custom("must be a number of seconds, 0 or more"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
        let millis = (seconds * 1000.0).round() as u64;
        Ok(Self(Millis::from_millis(millis)))
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = self.0.millis();
        if millis.is_multiple_of(1000) {
            return serializer.serialize_u64(millis / 1000);
        }
        #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^52 milliseconds")]
        serializer.serialize_f64(millis as f64 / 1000.0)
    }
}

/// A span in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WholeSeconds(pub(super) Millis);

impl<'de> Deserialize<'de> for WholeSeconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = u64::deserialize(deserializer)
            .map_err(|_| D::Error::custom("must be a whole number of seconds, 0 or more"))?;
        Ok(Self(Millis::from_secs(seconds)))
    }
}

/// For members that may be null: absent is `None`, null is a value. Serde alone takes null for absent.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A value that must be an object. Serde alone would read an array as the members of one, in their order.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

/// A list of no more than `MAX`. A longer one is given up where it becomes too long: a body of a few megabytes can name millions
/// of items, each of which takes many times as much memory as its text.
#[derive(Debug)]
pub(super) struct AtMost<const MAX: usize, T>(pub(super) Vec<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Deserialize<'de> for AtMost<MAX, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor::<MAX, T>(PhantomData)).map(Self)
    }
}

struct ListVisitor<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for ListVisitor<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            if list.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            list.push(item);
        }
        Ok(list)
    }
}

/// A payload as it goes out. It was read to its end when it came in; one that is no JSON is a mistake that must not go out
/// as something else.
pub(super) fn raw(payload: &Payload) -> &RawValue {
    serde_json::from_slice(payload.bytes()).expect("a payload is JSON")
}

/// The payload of a body, after its text was read to the end once more: raw JSON is skipped over when a body is parsed,
/// not checked for depth or for text that is not Unicode.
pub(super) fn payload(raw: Box<RawValue>) -> Result<Payload, Violations> {
    Payload::from_json(String::from(Box::<str>::from(raw)))
}

/// Most members of one body that are named as wrong. No body has as many, and a million keys must not make an answer that
/// is larger than they are.
const NAMED_MAX: usize = 32;

/// Reads a body. If it does not fit, every member that is wrong is named.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    read_checked(body, Ok)
}

/// Reads a body that may be left out.
pub(super) fn read_or_default<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Problem> {
    read_or_default_checked(body, Ok)
}

/// Reads a body that may be left out, and checks what it says.
pub(super) fn read_or_default_checked<T: DeserializeOwned + Default, U>(
    body: &[u8],
    check: impl FnOnce(T) -> Result<U, Problem>,
) -> Result<U, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) { check(T::default()) } else { read_checked(body, check) }
}

/// Reads a body and checks what it says. If some of its members cannot be read, the others are checked all the same, so
/// that everything that is wrong is named at once.
pub(super) fn read_checked<T: DeserializeOwned, U>(
    body: &[u8],
    check: impl FnOnce(T) -> Result<U, Problem>,
) -> Result<U, Problem> {
    // As for an [`Object`].
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(not_an_object(body));
    }
    let error = match serde_json::from_slice(body) {
        Ok(read) => return check(read),
        Err(error) => error,
    };
    let Ok(mut members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body) else {
        return Err(not_json(&error));
    };
    let found = unreadable::<T>(&members, &error);
    members.retain(|name, _| found.iter().all(|v| v.field != *name));
    let rest = serde_json::to_string(&members).unwrap_or_default();
    let checked = serde_json::from_str(&rest).ok().map(check);
    let also = checked.and_then(Result::err).map(|problem| problem.about_others(&found));
    Err(also.into_iter().fold(found.into(), Problem::and))
}

/// Reads the body member by member: every member of a body may be left out, so a body of one member fails because of it.
fn unreadable<T: DeserializeOwned>(
    members: &BTreeMap<String, &RawValue>,
    error: &serde_json::Error,
) -> Violations {
    let wrong = members.iter().filter_map(|(name, value)| {
        let alone = serde_json::to_string(&BTreeMap::from([(name, value)])).unwrap_or_default();
        serde_json::from_str::<T>(&alone).err().map(|problem| (name, without_position(&problem)))
    });
    let mut found = Violations::default();
    wrong.take(NAMED_MAX).for_each(|(name, problem)| found.add(name.as_str(), problem));
    match found.iter().count() {
        // Each member alone is fine, so one of them is there twice.
        0 => found.add("body", without_position(error)),
        NAMED_MAX => found.add("body", format!("has more that may be wrong: {NAMED_MAX} members are named")),
        _ => {}
    }
    found
}

fn not_an_object(body: &[u8]) -> Problem {
    match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Ok(_) => Problem::new(Code::InvalidJson, "the body must be a JSON object"),
        Err(error) => not_json(&error),
    }
}

fn not_json(error: &serde_json::Error) -> Problem {
    Problem::new(Code::InvalidJson, format!("the body is not valid JSON: {error}"))
}

/// What serde says, without the line and column of a text the caller never saw.
fn without_position(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields, rename_all = "camelCase")]
    struct Body {
        delay: Option<WholeSeconds>,
        lease_seconds: Option<Seconds>,
        run_at: Option<Time>,
    }

    fn fields(body: &str) -> Vec<String> {
        let problem = read::<Body>(body.as_bytes()).unwrap_err();
        let body = serde_json::to_value(problem.body()).unwrap();
        let named = body["violations"].as_array().cloned().unwrap_or_default();
        named.iter().map(|v| v["field"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_offending_field_is_named_at_once() {
        assert_eq!(
            fields(r#"{"delay": 1.5, "leaseSeconds": -1, "runAt": "soon"}"#),
            ["delay", "leaseSeconds", "runAt"]
        );
        assert_eq!(fields(r#"{"delay": 1, "colour": 2}"#), ["colour"]);
        assert_eq!(fields(r#"{"delay": 1, "delay": 2}"#), ["body"]);
        assert_eq!(fields(r#"{"delay": 18446744073709551616}"#), ["delay"]);
    }

    #[test]
    fn what_can_be_read_is_checked_although_the_rest_cannot() {
        let check = |body: Body| match body.lease_seconds {
            Some(_) => Err(Problem::field("leaseSeconds", "is too long")),
            None => Err::<(), _>(Problem::field("delay", "is required")),
        };
        let named = |body: &str| {
            let problem = read_checked(body.as_bytes(), check).unwrap_err();
            problem.detail().to_owned()
        };
        let words = named(r#"{"delay": -1, "leaseSeconds": 5}"#);
        assert!(words.contains("delay: must be") && words.contains("leaseSeconds: is too long"), "{words}");
        let words = named(r#"{"delay": -1}"#);
        assert!(
            words.contains("must be") && !words.contains("is required"),
            "it is there, and wrong: {words}"
        );
    }

    #[test]
    fn a_list_is_read_no_further_than_it_may_be_long() {
        let read = |text: &str| serde_json::from_str::<AtMost<2, u8>>(text).map(|list| list.0);
        assert_eq!(read("[1, 2]").unwrap(), [1, 2]);
        let too_long = read("[1, 2, 3, this is not even JSON").unwrap_err();
        assert!(too_long.to_string().contains("at most 2"), "{too_long}");
    }

    #[test]
    fn an_answer_about_a_great_many_members_is_short() {
        let members: Vec<_> = (0..1000).map(|n| format!(r#""k{n}": 0"#)).collect();
        let named = fields(&format!("{{{}}}", members.join(",")));
        assert_eq!((named.len(), named.last().map(String::as_str)), (NAMED_MAX + 1, Some("body")));
    }

    #[test]
    fn what_is_not_an_object_is_told_apart_from_what_is_not_json() {
        for (body, words) in
            [("[]", "must be a JSON object"), ("{", "not valid JSON"), ("", "not valid JSON")]
        {
            let problem = read::<Body>(body.as_bytes()).unwrap_err();
            assert_eq!(problem.code, Code::InvalidJson);
            assert!(problem.detail().contains(words), "{}", problem.detail());
        }
    }

    #[test]
    fn times_go_out_as_they_come_in() {
        let time = Time::parse("2026-11-15T12:00:00.250Z").unwrap();
        assert_eq!(time.to_string(), "2026-11-15T12:00:00.250Z");
        assert!(Time::parse("1960-01-01T00:00:00Z").is_err());
    }

    #[test]
    fn seconds_keep_their_milliseconds() {
        let read: Seconds = serde_json::from_str("0.25").unwrap();
        assert_eq!(read.0, Millis::from_millis(250));
        assert_eq!(serde_json::to_string(&read).unwrap(), "0.25");
        assert_eq!(serde_json::to_string(&Seconds(Millis::from_secs(3))).unwrap(), "3");
        assert!(serde_json::from_str::<Seconds>("1e999").is_err());
    }
}
