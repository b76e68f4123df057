//! `semel dev`: what it prints can be done as it is printed, and what is done is shown.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::hook::Hook;
use crate::run::ended;
use crate::server::{Server, semel};

const READY: &str = "Ctrl-C ends it";

pub(crate) fn dev(args: &[&str]) -> Server {
    Server::start(semel().args(["dev", "--listen", "127.0.0.1:0"]).args(args), READY)
}

/// The key that was printed.
pub(crate) fn key(server: &Server) -> String {
    let printed = server.stdout.split_once("SEMEL_API_KEY=").expect("a key").1;
    printed.split_whitespace().next().expect("a key").to_owned()
}

/// Runs shell lines, as somebody would who copies them.
fn shell(lines: &str) -> Value {
    let ran = Command::new("sh").args(["-ec", lines]).output().expect("a shell");
    let text = String::from_utf8(ran.stdout).expect("text");
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{lines}: {e}: {text}{}", String::from_utf8_lossy(&ran.stderr)))
}

/// The exports of the first page, and its commands that begin like this; a line that goes on does so.
fn to_copy(page: &str, program: &str) -> (String, Vec<String>) {
    let page = page.replace("\\\n", " ");
    let lines = || page.lines().map(str::trim);
    let exports: Vec<_> = lines().filter(|line| line.starts_with("export ")).collect();
    let commands = lines().filter(|line| line.split(' ').next().is_some_and(|word| word.ends_with(program)));
    (exports.join("\n"), commands.map(str::to_owned).collect())
}

#[test]
fn the_lines_it_prints_do_what_they_say() {
    let mut server = dev(&[]);
    let (exports, commands) = to_copy(&server.stdout, "curl");
    let [publish, lease, ack] = &commands[..] else { panic!("three lines to try: {commands:?}") };
    let first = shell(&format!("{exports}\n{publish}"));
    assert_eq!(first["deduplicated"], false, "{first}");
    let second = shell(&format!("{exports}\n{publish}"));
    assert_eq!((&second["deduplicated"], &second["id"]), (&true.into(), &first["id"]), "{second}");
    let leased = shell(&format!("{exports}\n{lease}"));
    let job = &leased["jobs"][0];
    assert_eq!((&job["id"], &job["payload"]["order"]), (&first["id"], &1.into()), "{leased}");
    let id = job["id"].as_str().expect("an id");
    let filled = ack.replace("JOB_ID", id).replace("LEASE", job["lease"].as_str().expect("a lease"));
    assert_eq!(shell(&format!("{exports}\n{filled}"))["accepted"], true);
    let (_, commands) = to_copy(&server.stdout, "semel");
    let [publish, ask, listen] = &commands[..] else { panic!("three lines more: {commands:?}") };
    let ran =
        Command::new("sh").args(["-ec", &format!("{exports}\n{publish}\n{ask}\n{listen} --help")]).output();
    let ran = ran.expect("a shell");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("order-1 in orders"), "{said}");
    for expected in [
        format!("201  created {id}"),
        format!("200  deduplicated -> {id}"),
        format!("200  leased {id}"),
        format!("200  settled: done {id}"),
    ] {
        let (status, words) = expected.split_once("  ").expect("two parts");
        let line = server.wait_for(words);
        assert!(line.contains("POST") && line.contains(status) && line.contains("s  "), "{line}");
    }
    let key = key(&server);
    server.signal(Signal::INT);
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains(&key), "the key is in the log: {}", ended.stderr);
    assert!(!ended.stderr.contains('\u{1b}'), "colours are for terminals: {}", ended.stderr);
}

#[test]
fn every_line_of_the_first_page_fits_a_terminal() {
    let server = dev(&[]);
    // The path of this test's build is longer than that of a program on the PATH.
    let page = server.stdout.replace(env!("CARGO_BIN_EXE_semel"), "semel");
    let widest = page.lines().max_by_key(|line| line.chars().count()).expect("lines");
    assert!(widest.chars().count() <= 100, "{widest}");
}

#[test]
fn deliveries_and_refusals_are_shown_and_no_query_is() {
    let (mut server, hook) = (dev(&[]), Hook::new());
    let key = key(&server);
    let queue = format!(r#"{{"delivery":{{"type":"push","url":"{}"}},"maxAttempts":1}}"#, hook.url());
    assert!(server.ask("PUT", "/v1/queues/mail", Some(&key), &queue).0 < 300);
    hook.answer("500 Oops");
    let (_, job) = server.ask("POST", "/v1/queues/mail/jobs?wait=1", Some(&key), r#"{"payload":1}"#);
    let id = job["id"].as_str().expect("an id").to_owned();
    let line = server.wait_for("push");
    let target = format!("mail -> {}/hook", hook.address);
    for expected in [target.as_str(), "500", &id, "dead letter", "the endpoint answered 500"] {
        assert!(line.contains(expected), "{expected}: {line}");
    }
    assert_eq!(server.ask("GET", "/v1/queues/absent?x=sesame", Some(&key), "").0, 404);
    server.wait_for("queue_not_found: ");
    assert_eq!(server.ask("POST", "/v1/queues/mail/jobs", None, "{}").0, 401);
    let line = server.wait_for("unauthorized: ");
    assert!(line.contains("401"), "{line}");
    assert!(!server.stderr.contains("sesame"), "{}", server.stderr);
}

#[test]
fn it_is_quiet_when_asked() {
    let server = dev(&["--quiet"]);
    assert!(!server.stdout.contains("Below:"), "{}", server.stdout);
    assert_eq!(server.ask("GET", "/v1/queues", Some(&key(&server)), "").0, 200);
    let ended = server.stop();
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stderr.contains("GET"), "{}", ended.stderr);
}

#[test]
fn an_address_that_is_taken_is_told_and_nothing_is_made() {
    let (server, dir) = (dev(&[]), tempfile::tempdir().unwrap());
    let (address, data) = (server.address.to_string(), dir.path().join("store"));
    let second = ended(semel().args(["dev", "--listen", &address, "--data"]).arg(&data));
    assert_eq!((second.code, second.stderr.lines().count()), (Some(2), 1), "{}", second.stderr);
    assert!(
        second.stderr.contains("is another server running there?") && !data.exists(),
        "{}",
        second.stderr
    );
}

#[test]
fn nobody_comes_in_without_the_key() {
    let server = dev(&[]);
    let (status, problem) = server.ask("GET", "/v1/queues", None, "");
    assert_eq!((status, &problem["code"]), (401, &"unauthorized".into()), "{problem}");
    assert_eq!(server.ask("GET", "/v1/queues", Some(&key(&server)), "").0, 200);
    assert_eq!(server.ask("GET", "/healthz", None, "").0, 200);
}

#[test]
fn with_a_directory_jobs_survive_and_an_old_key_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("store").to_str().unwrap().to_owned();
    let body = r#"{"payload":1,"idempotencyKey":"k"}"#;
    let server = dev(&["--data", &data]);
    let old = key(&server);
    let (status, first) = server.ask("POST", "/v1/queues/q/jobs", Some(&old), body);
    assert_eq!(status, 201, "{first}");
    assert_eq!(server.stop().code, Some(0));
    let server = dev(&["--data", &data]);
    assert_eq!(server.ask("POST", "/v1/queues/q/jobs", Some(&old), body).0, 401);
    let (status, second) = server.ask("POST", "/v1/queues/q/jobs", Some(&key(&server)), body);
    assert_eq!((status, &second["id"]), (200, &first["id"]), "{second}");
}
