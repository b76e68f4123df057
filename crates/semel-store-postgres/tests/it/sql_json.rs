//! What is JSON, and where two payloads differ: written twice, in Rust and in SQL.

use proptest::prelude::*;
use semel_core::collision::{self, Verdict};
use semel_core::payload::Payload;

use crate::sql_rules::{Sql, check};

impl Sql {
    fn is_json(&self, text: &str) -> bool {
        self.ask::<Option<String>>("SELECT semel.json_problem($1)", &[&text]).is_none()
    }

    fn differences(&self, first: &str, second: &str, ignored: &[String]) -> Vec<String> {
        let sql = "SELECT semel.differences($1, $2, $3)";
        serde_json::from_str(&self.ask::<String>(sql, &[&first, &second, &ignored])).unwrap()
    }
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + "{}" + &"]".repeat(depth)
}

#[test]
fn the_same_texts_are_json() {
    let sql = Sql::new();
    let wide = format!("[{}1]", r#"{"a":"]}[{\"\\"},[[]],"#.repeat(500));
    let digits = "9".repeat(309);
    let texts = [
        "1",
        " null ",
        "[]",
        "{}",
        r#""""#,
        r#" {"b" : 1.0, "a":-0 , "b": 18446744073709551616 } "#,
        "",
        " ",
        "{",
        "nope",
        "1 2",
        "[1,]",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "NaN",
        "Infinity",
        "'a'",
        "\u{feff}1",
        "\"\t\"",
        "\"\u{1f}\"",
        "\"\u{7f}\u{85}\"",
        r#""\x""#,
        r#""\u12""#,
        r#""\u0000""#,
        r#"{"\u0000":"\\u0000"}"#,
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud83e\udd80""#,
        r#""\uD83E\uDD80""#,
        r#""\ud83e\ud83e\udd80""#,
        r#""\ud83e\\\udd80""#,
        r#""\\ud800""#,
        r#""\\\ud800""#,
        r#"{"\ud800":1}"#,
        r#""\ud83e \udd80""#,
        r#""\ud83eA""#,
        r#""\u00e9\ud83e\udd80\u00e9""#,
        "1e999",
        "-1e999",
        "1e308",
        "1.7e308",
        "1.8e308",
        "1e309",
        "-1e309",
        "0e999",
        "0.0e99999999999999999999",
        "1e-999",
        "1e-99999999999999999999",
        "1e99999999999999999999",
        "10e307",
        "100e307",
        "0.1e309",
        "0.1e310",
        "1e0309",
        "1e+309",
        r#""1e999""#,
        r#"{"1e999":1}"#,
        r#"[1,{"a":[1E400]}]"#,
        &digits,
        &digits[1..],
        &wide,
        &nested(125),
        &nested(126),
        &nested(127),
        &nested(200),
        &nested(100_000),
        &"[".repeat(50_000),
        &"]".repeat(200),
        &format!("\"{}\"", "[{".repeat(100)),
    ];
    for text in texts {
        let shown = &text[..text.len().min(60)];
        assert_eq!(sql.is_json(text), Payload::from_json(text.to_owned()).is_ok(), "{shown}");
    }
}

/// Texts that are nearly JSON: pieces of it in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u",
        "\\ud83e",
        "\\udd80",
        "\\u0000",
        "\\\\",
        "1",
        "-",
        ".",
        "e",
        "E+",
        "400",
        "0",
        "true",
        "null",
        " ",
        "\n",
        "a",
        "é",
        "🦀",
        "\"a\"",
        "\"a\":",
        "[1]",
        "{\"a\":1}",
    ]);
    prop_oneof![
        prop::collection::vec(piece.clone(), 1..8).prop_map(|all| all.concat()),
        prop::collection::vec(piece, 1..8).prop_map(|all| format!("\"{}\"", all.concat().replace('"', ""))),
    ]
}

#[test]
fn texts_that_are_nearly_json_are_judged_alike() {
    let sql = Sql::new();
    check(&pieces(), |text| {
        prop_assert_eq!(sql.is_json(&text), Payload::from_json(text.clone()).is_ok(), "{}", text);
        Ok(())
    });
}

/// Where two payloads differ, by the law.
fn expected(first: &str, second: &str, ignored: &[String]) -> Vec<String> {
    let payload = |text: &str| Payload::from_json(text.to_owned()).unwrap();
    match collision::compare(&payload(first), &payload(second), ignored) {
        Verdict::Same => Vec::new(),
        Verdict::Different { pointers } => pointers,
    }
}

#[test]
fn the_same_payloads_differ_in_the_same_places() {
    let sql = Sql::new();
    let list = |n: u32, count: usize| format!("[{}]", vec![n.to_string(); count].join(","));
    let pairs = [
        ("1", "1"),
        (" 1 ", "1"),
        ("1", "1.0"),
        ("1", "10e-1"),
        ("100", "1E+2"),
        ("0", "-0.0e9"),
        ("-7", "-7.00"),
        ("1", "-1"),
        ("0.1", "0.10000000000000001"),
        ("9007199254740993", "9007199254740992"),
        ("1e-99999999999999999999", "10e-99999999999999999999"),
        ("0e99999999999999999999", "0"),
        ("1", "\"1\""),
        ("0", "null"),
        ("true", "false"),
        ("[]", "{}"),
        (r#"{"a":1,"b":[true,null]}"#, r#" { "b" : [ true , null ], "a" : 1 } "#),
        (r#""größe \/ A""#, r#""gr\u00f6\u00dfe / \u0041""#),
        (r#"{"a":1,"a":2}"#, r#"{"\u0061":2}"#),
        (
            r#"{"a/b":1,"m~n":2,"list":[1,{"x":1},3],"same":0,"gone":1}"#,
            r#"{"a/b":2,"m~n":3,"list":[1,{"x":2}],"same":0,"new":1}"#,
        ),
        (r#"{"Z":1,"a":1,"é":1,"_":1}"#, r#"{"Z":2,"a":2,"é":2,"_":2}"#),
        (r#"["\u0000",1]"#, r#"["\u0000",2]"#),
        (r#"["a\u0000b",1]"#, r#"[ "\u0061\u0000b", 1]"#),
        (r#"["\u0000"]"#, r#"[""]"#),
        (r#"{"a\u0000b":1}"#, r#"{"a\u0000b":2}"#),
        (r#"["\\u0000"]"#, r#"["\u0000"]"#),
        (r#"["\ue000\u0000"]"#, r#"["\uE000\u0000","\ue001"]"#),
        (&list(1, 1000), &list(2, 1000)),
        (&list(1, 10), &list(1, 40)),
        (
            &format!("{}1{}", "[".repeat(31), "]".repeat(31)),
            &format!("{}1.0{}", "[".repeat(31), "]".repeat(31)),
        ),
        (
            &format!("{}1{}", "[".repeat(40), "]".repeat(40)),
            &format!("{}1.0{}", "[".repeat(40), "]".repeat(40)),
        ),
    ];
    for (first, second) in pairs {
        assert_eq!(sql.differences(first, second, &[]), expected(first, second, &[]), "{first} {second}");
    }
    let (first, second) = (r#"{"meta":{"at":1},"metal":1}"#, r#"{"meta":{"at":2,"by":3},"metal":2}"#);
    for ignored in
        [vec!["/meta"], vec!["/meta/at", "/metal"], vec![""], vec!["/met"], vec!["/%"], vec!["/meta/at/"]]
    {
        let ignored: Vec<_> = ignored.into_iter().map(str::to_owned).collect();
        assert_eq!(
            sql.differences(first, second, &ignored),
            expected(first, second, &ignored),
            "{ignored:?}"
        );
    }
}

/// JSON as text, written in different ways.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "1",
        "1.0",
        "10e-1",
        "2",
        "-1",
        "\"\"",
        "\"a\"",
        "\"\\u0061\"",
        "\"é\"",
        "\"\\u0000\"",
        "\"~/\"",
    ]);
    let name = prop::sample::select(vec!["a", "\\u0061", "b", "~", "\\/", "/", "", "B", "é", "\\u0000"]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(", "))),
            prop::collection::vec((name.clone(), inner), 0..4).prop_map(|members| {
                let all: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", all.join(","))
            }),
        ]
    })
}

#[test]
fn any_two_payloads_differ_in_the_same_places() {
    let sql = Sql::new();
    let ignored = prop::sample::subsequence(vec!["/a", "/b/a", "/0", "/~0"], 0..3);
    check(&(json(), json(), ignored), |(first, second, ignored)| {
        let ignored: Vec<_> = ignored.into_iter().map(str::to_owned).collect();
        let (mut by_sql, mut by_law) =
            (sql.differences(&first, &second, &ignored), expected(&first, &second, &ignored));
        // A name with \u0000 in it is listed, but in another place: PostgreSQL cannot sort by that character.
        by_sql.sort();
        by_law.sort();
        prop_assert_eq!(by_sql, by_law, "{} {}", first, second);
        Ok(())
    });
}
