//! `semel tail`: events as they happen, and again after the server was away.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::client::{ANYWHERE, serve};
use crate::dev::{dev, key};
use crate::run;
use crate::server::{Server, semel};

const PUBLISH: &str = r#"{"payload":1,"idempotencyKey":"k"}"#;

fn tail(server: &Server, more: &[&str]) -> Command {
    let mut command = semel();
    command.args(["tail", "--server", &format!("http://{}", server.address)]).args(more);
    command
}

#[test]
fn events_are_shown_until_ctrl_c() {
    let mut server = dev(&[]);
    let key = key(&server);
    let mut text = Server::spawn(tail(&server, &["--queue", "orders"]).env("SEMEL_API_KEY", &key));
    server.wait_for("/v1/events");
    let more = ["--json", "--kind", "job.d*"];
    let mut json = Server::spawn(tail(&server, &more).env("SEMEL_API_KEY", &key));
    server.wait_for("/v1/events");
    for queue in ["other", "orders", "orders"] {
        assert!(server.ask("POST", &format!("/v1/queues/{queue}/jobs"), Some(&key), PUBLISH).0 < 300);
    }
    let published = text.wait_for("job.published");
    let words: Vec<_> = published.split_whitespace().collect();
    assert_eq!((words[1], words[2]), ("job.published", "orders"), "{published}");
    let again = text.wait_for("job.deduplicated");
    assert!(again.contains(words[3]), "the same job: {published}{again}");
    let event: Value = serde_json::from_str(&json.wait_for("job.")).expect("JSON");
    assert_eq!(event["type"], "job.deduplicated", "the kinds that were asked for: {event}");
    for (watching, signal) in [(text, Signal::INT), (json, Signal::TERM)] {
        watching.signal(signal);
        let ended = watching.ended();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert!(!ended.stdout.contains("other"), "{}", ended.stdout);
    }
}

#[test]
fn a_server_that_was_away_is_found_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path(), ANYWHERE);
    assert!(server.ask("PUT", "/v1/queues/q", None, r#"{"delivery":{"type":"pull"}}"#).0 < 300);
    let address = server.address;
    let mut watching = Server::spawn(&mut tail(&server, &[]));
    // Its stream is open when an event comes through it.
    let mut n = 0;
    while !watching.stdout.contains("job.published") {
        n += 1;
        let body = format!(r#"{{"payload":{n}}}"#);
        assert_eq!(server.ask("POST", "/v1/queues/q/jobs", None, &body).0, 201);
        watching.read_what_there_is();
    }
    assert_eq!(server.stop().code, Some(0));
    watching.wait_for("connecting again in 0.5 s");
    let server = serve(dir.path(), address);
    watching.wait_for("connected again");
    assert_eq!(server.ask("POST", "/v1/queues/q/jobs", None, PUBLISH).0, 201);
    watching.wait_for("job.published");
    watching.signal(Signal::INT);
    assert_eq!(watching.ended().code, Some(0));
}

#[test]
fn what_it_cannot_do_is_told_in_one_line() {
    let typo = run::semel(&["tail", "--kind", "job.died"]);
    assert_eq!(typo.code, Some(2));
    assert!(typo.stderr.contains("job.dead") && typo.stderr.lines().count() == 1, "{}", typo.stderr);
    let server = dev(&[]);
    let ran = tail(&server, &[]).output().expect("it runs");
    assert_eq!(ran.status.code(), Some(4), "a server with keys, and none given");
    let nobody = server.address;
    assert_eq!(server.stop().code, Some(0));
    let away = run::semel(&["tail", "--server", &format!("http://{nobody}")]);
    assert_eq!((away.code, away.stderr.lines().count()), (Some(3), 1), "{}", away.stderr);
}
