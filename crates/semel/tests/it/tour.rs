//! `semel tour` keeps its promises, and says what really happened.

use std::process::{Command, Stdio};

use crate::run::semel;

#[test]
fn every_promise_holds_and_the_reader_can_follow() {
    let tour = semel(&["tour"]);
    assert_eq!(tour.code, Some(0), "{}{}", tour.stdout, tour.stderr);
    for expected in [
        "deduplicated",
        "key_collision",
        "/amount",
        "stale_lease",
        "dead",
        "replay",
        "kill -9",
        "Where to go next",
    ] {
        assert!(tour.stdout.contains(expected), "{expected} is missing: {}", tour.stdout);
    }
    assert!(!tour.stdout.contains("BROKEN") && !tour.stdout.contains('\u{1b}'), "{}", tour.stdout);
    // The line that names the temporary directory is as long as that name.
    for line in tour.stdout.lines().filter(|line| !line.contains("semel-tour-")) {
        assert!(line.chars().count() <= 100, "too wide to read along: {line}");
    }
}

#[test]
fn the_answers_are_those_of_this_run() {
    let [first, second] = [semel(&["tour", "--json"]), semel(&["tour", "--json"])];
    for tour in [&first, &second] {
        assert_eq!(tour.code, Some(0), "{}", tour.stderr);
        assert_eq!(tour.json()["held"], true);
        assert_eq!(tour.json()["acts"].as_array().map(Vec::len), Some(6));
    }
    let answer = |tour: &crate::run::Ended| tour.json()["acts"][0]["calls"][0]["answer"].to_string();
    assert!(answer(&first).contains("job_"));
    assert_ne!(answer(&first), answer(&second), "another run has other ids");
}

#[test]
fn a_reader_who_leaves_early_is_no_error() {
    let mut tour = Command::new(env!("CARGO_BIN_EXE_semel"))
        .arg("tour")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    drop(tour.stdout.take());
    let ended = tour.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
}
