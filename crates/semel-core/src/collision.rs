//! The same key with another payload: is it really another, and where?
//!
//! Payloads are compared as JSON values, because a retry may well come from another version of the sender, or through a
//! proxy, that writes the same value differently. So the order of an object's members, white space and escapes do not
//! matter, and numbers are equal when they are the same number: `1`, `1.0` and `10e-1` are, `0.1` and
//! `0.10000000000000001` are not. Numbers are compared by their digits, never as floats, which would make large ids equal
//! to their neighbours. Of a member that occurs twice the last one counts, as in nearly every parser.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::payload::Payload;

/// Most differences listed. They are for a person to find the mistake, and twenty show the pattern; two payloads of
/// another kind altogether would differ in everything.
pub const POINTERS_MAX: usize = 20;

/// How deep values are compared member by member; what lies deeper is compared as text. Every level reads its text once
/// more, so this bounds the work as well as the stack.
pub const DEPTH_MAX: usize = 32;

/// Whether two payloads are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They are, apart from what may differ.
    Same,
    /// They are not.
    Different {
        /// Where, as JSON pointers (RFC 6901): the first [`POINTERS_MAX`] of them.
        pointers: Vec<String>,
    },
}

/// Compares two payloads. An ignored pointer covers everything below it.
pub fn compare(first: &Payload, second: &Payload, ignore: &[String]) -> Verdict {
    let mut walk = Walk { ignore, found: Vec::new() };
    if first.bytes() != second.bytes() {
        match (parse(first.bytes()), parse(second.bytes())) {
            (Some(a), Some(b)) => walk.value("", a, b, 0),
            _ => walk.differs(""),
        }
    }
    if walk.found.is_empty() { Verdict::Same } else { Verdict::Different { pointers: walk.found } }
}

/// One level of a JSON value. What is below is still text, so that numbers keep all their digits.
enum Level<'a> {
    Object(BTreeMap<String, &'a RawValue>),
    Array(Vec<&'a RawValue>),
    Text(String),
    Number(Number),
    /// `true`, `false`, `null`, and text that names no characters (a lone surrogate): equal only if written alike.
    Verbatim(&'a str),
}

struct Walk<'a> {
    ignore: &'a [String],
    found: Vec<String>,
}

impl Walk<'_> {
    fn value(&mut self, path: &str, a: &RawValue, b: &RawValue, depth: usize) {
        if self.is_full() || self.is_ignored(path) || a.get() == b.get() {
            return;
        }
        if depth == DEPTH_MAX {
            return self.differs(path);
        }
        match (level(a), level(b)) {
            (Level::Object(a), Level::Object(b)) => self.members(path, &a, &b, depth),
            (Level::Array(a), Level::Array(b)) => self.elements(path, &a, &b, depth),
            (Level::Text(a), Level::Text(b)) if a == b => {}
            (Level::Number(a), Level::Number(b)) if a == b => {}
            (Level::Verbatim(a), Level::Verbatim(b)) if a == b => {}
            _ => self.differs(path),
        }
    }

    fn members(
        &mut self,
        path: &str,
        a: &BTreeMap<String, &RawValue>,
        b: &BTreeMap<String, &RawValue>,
        depth: usize,
    ) {
        for name in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
            let below = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            self.child(&below, a.get(name).copied(), b.get(name).copied(), depth);
        }
    }

    fn elements(&mut self, path: &str, a: &[&RawValue], b: &[&RawValue], depth: usize) {
        for i in 0..a.len().max(b.len()) {
            self.child(&format!("{path}/{i}"), a.get(i).copied(), b.get(i).copied(), depth);
        }
    }

    fn child(&mut self, path: &str, a: Option<&RawValue>, b: Option<&RawValue>, depth: usize) {
        match (a, b) {
            (Some(a), Some(b)) => self.value(path, a, b, depth + 1),
            _ => self.differs(path),
        }
    }

    fn differs(&mut self, path: &str) {
        if !self.is_full() && !self.is_ignored(path) {
            self.found.push(path.to_owned());
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() == POINTERS_MAX
    }

    fn is_ignored(&self, path: &str) -> bool {
        let covers = |rest: &str| rest.is_empty() || rest.starts_with('/');
        self.ignore.iter().any(|pointer| path.strip_prefix(pointer.as_str()).is_some_and(covers))
    }
}

fn level(value: &RawValue) -> Level<'_> {
    let text = value.get();
    let parsed = match text.as_bytes().first() {
        Some(b'{') => parse(text.as_bytes()).map(Level::Object),
        Some(b'[') => parse(text.as_bytes()).map(Level::Array),
        Some(b'"') => parse(text.as_bytes()).map(Level::Text),
        Some(b'-' | b'0'..=b'9') => Number::read(text).map(Level::Number),
        _ => None,
    };
    parsed.unwrap_or(Level::Verbatim(text))
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    serde_json::from_slice(text).ok()
}

/// A JSON number in its one normal form: 0.`digits` x 10^`exponent`, without zeros at either end of the digits.
#[derive(Debug, PartialEq, Eq)]
struct Number {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Number {
    /// `None` if the exponent is beyond any reason; such a number equals only what is written alike.
    fn read(text: &str) -> Option<Self> {
        let size = text.trim_start_matches('-');
        let (mantissa, exponent) = size.split_once(['e', 'E']).unwrap_or((size, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        if digits.is_empty() {
            // There is one zero, however it is signed or scaled.
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let leading = i64::try_from(all.len() - digits.len()).ok()?;
        let point = i64::try_from(whole.len()).ok()? - leading;
        Some(Self {
            negative: text.starts_with('-'),
            digits: digits.trim_end_matches('0').to_owned(),
            exponent: exponent.parse::<i64>().ok()?.checked_add(point)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn payload(text: impl Into<String>) -> Payload {
        Payload::from_parsed(text.into())
    }

    fn differences(first: &str, second: &str, ignore: &[&str]) -> Vec<String> {
        let ignore = ignore.iter().map(|&p| p.to_owned()).collect::<Vec<_>>();
        match compare(&payload(first), &payload(second), &ignore) {
            Verdict::Same => Vec::new(),
            Verdict::Different { pointers } => {
                assert!(!pointers.is_empty(), "a difference has a place");
                pointers
            }
        }
    }

    fn same(first: &str, second: &str) -> bool {
        differences(first, second, &[]).is_empty()
    }

    #[test]
    fn what_is_written_differently_is_still_the_same() {
        assert!(same(r#"{"a":1,"b":[true,null]}"#, r#" { "b" : [ true , null ], "a" : 1 } "#));
        assert!(same(r#""größe \/ A""#, r#""gr\u00f6\u00dfe / \u0041""#));
        assert!(same(r#"{"\u0061":1}"#, r#"{"a":1}"#));
        assert!(same(r#"{"a":1,"a":2}"#, r#"{"a":2}"#), "of a repeated member the last counts");
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_exactly() {
        for (a, b) in [
            ("1", "1.0"),
            ("1", "10e-1"),
            ("100", "1E+2"),
            ("0", "-0.0e9"),
            ("0.05", "5e-2"),
            ("-7", "-7.00"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("1", "-1"),
            ("1", "10"),
            ("0.1", "0.10000000000000001"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551617", "18446744073709551618"),
            ("1e999", "1e998"),
            ("1", "\"1\""),
            ("0", "null"),
            ("1e99999999999999999999", "2e99999999999999999999"),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn differences_are_named_by_escaped_pointers_in_order() {
        let first = r#"{"a/b":1,"m~n":2,"list":[1,{"x":1},3],"same":0,"gone":1}"#;
        let second = r#"{"a/b":2,"m~n":3,"list":[1,{"x":2}],"same":0,"new":1}"#;
        let expected = ["/a~1b", "/gone", "/list/1/x", "/list/2", "/m~0n", "/new"];
        assert_eq!(differences(first, second, &[]), expected);
        assert_eq!(differences("1", "2", &[]), [""]);
        assert_eq!(differences("[]", "{}", &[]), [""]);
    }

    #[test]
    fn an_ignored_pointer_covers_what_is_below_it_and_nothing_beside_it() {
        let (first, second) = (r#"{"meta":{"at":1},"metal":1}"#, r#"{"meta":{"at":2,"by":3},"metal":2}"#);
        assert_eq!(differences(first, second, &["/meta"]), ["/metal"]);
        assert_eq!(differences(first, second, &["/meta/at", "/metal"]), ["/meta/by"]);
        assert_eq!(differences(first, second, &[""]), [""; 0]);
        assert_eq!(
            differences(r#"{"at":1}"#, "{}", &["/at"]),
            [""; 0],
            "a missing member may be ignored too"
        );
    }

    #[test]
    fn the_list_of_differences_is_bounded() {
        let list = |n: u32| serde_json::to_string(&vec![n; 1000]).unwrap();
        assert_eq!(differences(&list(1), &list(2), &[]).len(), POINTERS_MAX);
    }

    #[test]
    fn ignored_differences_do_not_fill_the_list() {
        let first = format!(r#"{{"a":{},"b":1}}"#, serde_json::to_string(&vec![1; 50]).unwrap());
        let second = r#"{"a":[],"b":2}"#;
        let ignore = (0..50).map(|i| format!("/a/{i}")).collect::<Vec<_>>();
        let ignore = ignore.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(differences(&first, second, &ignore), ["/b"]);
    }

    #[test]
    fn what_lies_too_deep_is_compared_as_text() {
        let nested = |inner: &str, depth| "[".repeat(depth) + inner + &"]".repeat(depth);
        assert!(same(&nested("1", DEPTH_MAX - 1), &nested("1.0", DEPTH_MAX - 1)));
        assert_eq!(
            differences(&nested("1", 100_000), &nested("1.0", 100_000), &[]),
            ["/0".repeat(DEPTH_MAX)]
        );
    }

    #[test]
    fn text_without_characters_equals_only_itself() {
        assert!(!same(r#"["\ud800"]"#, r#"["\ud801"]"#));
        assert_eq!(differences(r#"["\ud800",1]"#, r#"["\ud800",2]"#, &[]), ["/1"]);
        assert_eq!(differences(r#"{"a":{"\ud800":1}}"#, r#"{"a":{"\ud800":2}}"#, &[]), ["/a"]);
        let broken = Payload::from_parsed(&b"\"\xff\""[..]);
        assert_eq!(
            compare(&broken, &payload("1"), &[]),
            Verdict::Different { pointers: vec![String::new()] }
        );
        assert_eq!(compare(&broken, &broken, &[]), Verdict::Same);
    }

    /// Any JSON value without numbers that a float would blur.
    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c~/\"\u{e9}]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c~/]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_verdict_is_that_of_the_values(a in json(), b in json()) {
            prop_assert_eq!(same(&a.to_string(), &b.to_string()), a == b);
            let pretty = serde_json::to_string_pretty(&a).unwrap();
            prop_assert!(same(&a.to_string(), &pretty));
        }

        #[test]
        fn each_pointer_leads_to_a_difference(a in json(), b in json()) {
            for pointer in differences(&a.to_string(), &b.to_string(), &[]) {
                prop_assert_ne!(a.pointer(&pointer), b.pointer(&pointer), "{}", pointer);
            }
        }

        #[test]
        fn ignoring_all_differences_leaves_none(a in json(), b in json()) {
            let found = differences(&a.to_string(), &b.to_string(), &[]);
            let ignore = found.iter().map(String::as_str).collect::<Vec<_>>();
            let rest = differences(&a.to_string(), &b.to_string(), &ignore);
            prop_assert!(found.len() == POINTERS_MAX || rest.is_empty());
        }

        #[test]
        fn a_number_is_itself_however_it_is_written(n: i64, zeros in 0_usize..20) {
            let moved = format!("{n}{}e-{zeros}", "0".repeat(zeros));
            prop_assert!(same(&n.to_string(), &moved));
            prop_assert!(!same(&n.to_string(), &n.wrapping_add(1).to_string()));
        }
    }
}
