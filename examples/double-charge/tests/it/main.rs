//! The real program: its exit code, what it tells people, and what it tells machines.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::process::{Command, Output};

use serde_json::{Value, json};

const README: &str = include_str!("../../README.md");

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_double-charge")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What it told machines, and its exit code.
fn report(arguments: &[&str]) -> (Value, Option<i32>) {
    let output = demo(arguments);
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr))), output.status.code())
}

fn each<'a>(report: &'a Value, field: &str) -> Vec<&'a Value> {
    report["acts"][0]["orders"].as_array().unwrap().iter().map(|order| &order[field]).collect()
}

/// Every line, in whatever order the queue delivered again, without the numbers of processes.
fn shape(told: &str) -> Vec<String> {
    let mut lines: Vec<_> = told.lines().map(without_process).collect();
    lines.sort();
    lines
}

fn without_process(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let ["order", _, "delivery", _, "worker", pid, ..] = words[..] else { return line.to_owned() };
    let masked =
        |word: &str| if word.trim_end_matches(',') == pid { "N".to_owned() } else { word.to_owned() };
    words.into_iter().map(masked).collect::<Vec<_>>().join(" ")
}

#[test]
fn heavy_the_first_two_acts_fail_and_the_others_keep_their_promise() {
    let output = demo(&[]);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{errors}");
    assert_eq!(errors, "");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = told.lines().map(words).collect();
    for row in [
        "1 charge, then ack 1 1 1 2 ✗ 2 ✗ charged twice",
        "2 insert, commit, charge 1 1 0 ✗ 1 1 a charge is lost",
        "3 ledger: transactional 1 1 1 1 1 each once",
        "4 ledger: intent 1 1 1 1 1 each once",
        "5 ledger: at most once (mail) at most 1 1 0 1 1 none twice",
    ] {
        assert!(lines.iter().any(|line| line == row), "{row} is missing: {told}");
    }
    assert_eq!(told.matches("kill -9 ").count(), 1 + 5 * 3, "{told}");
    let shown = README.split("```text\n").nth(1).and_then(|block| block.split("```").next()).unwrap();
    assert_eq!(shape(&told), shape(shown), "README.md shows something else: {told}");
    let wide = told.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None, "too wide to read along");
    assert!(!told.contains('\u{1b}'), "no colours but on a terminal: {told}");
}

#[test]
fn heavy_machines_get_the_same_as_json() {
    let (report, code) = report(&["--json", "--act", "transactional"]);
    assert_eq!((code, &report["held"]), (Some(0), &json!(true)), "{report}");
    assert_eq!(report["acts"].as_array().map(Vec::len), Some(1));
    assert_eq!(each(&report, "found"), [1, 1, 1, 1]);
    assert_eq!(
        each(&report, "killed"),
        [&Value::Null, &json!("before_effect"), &json!("after_effect"), &json!("before_ack")]
    );
    assert_eq!(each(&report, "receipt"), ["applied", "applied", "applied", "replayed"]);
}

#[test]
fn heavy_a_broken_promise_is_an_exit_code() {
    let (report, code) = report(&["--json", "--act", "intent", "--forgetful"]);
    assert_eq!((code, &report["held"]), (Some(1), &json!(false)), "{report}");
    // The retry came with the first one's key, and the provider did not know it.
    assert_eq!(each(&report, "found"), [1, 1, 2, 1]);
}
