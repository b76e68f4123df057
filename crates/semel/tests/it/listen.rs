//! `semel listen`: what the server would have pushed, pushed from here.

use std::process::Command;

use rustix::process::Signal;
use semel_server::delivery::sign;

use crate::client::{ANYWHERE, serve};
use crate::dev::{dev, key};
use crate::hook::{Got, Hook};
use crate::run;
use crate::server::{Server, semel};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn listen(server: &Server, key: &str, url: &str, more: &[&str]) -> Command {
    let mut command = semel();
    command.args(["listen", "--queue", "orders", "--forward-to", url, "--server"]);
    command.arg(format!("http://{}", server.address)).env("SEMEL_API_KEY", key).args(more);
    command
}

fn publish(server: &Server, key: &str, queue: &str, name: &str) -> String {
    let body = format!(r#"{{"payload":{{"n": 1.0}},"idempotencyKey":"{name}","metadata":{{"a":"b"}}}}"#);
    let (status, published) = server.ask("POST", &format!("/v1/queues/{queue}/jobs"), Some(key), &body);
    assert_eq!(status, 201, "{published}");
    published["id"].as_str().expect("an id").to_owned()
}

/// What a webhook can go by: the names of the headers, and those of the body's members.
fn shape(got: &Got) -> (Vec<String>, Vec<String>) {
    let members = got.json().as_object().expect("an object").keys().cloned().collect();
    (got.headers.keys().cloned().collect(), members)
}

#[test]
fn a_delivery_is_what_the_server_would_have_pushed() {
    let (server, pushed_to, forwarded_to) = (dev(&[]), Hook::new(), Hook::new());
    let key = key(&server);
    let queue = format!(r#"{{"delivery":{{"type":"push","url":"{}"}}}}"#, pushed_to.url());
    assert!(server.ask("PUT", "/v1/queues/pushed", Some(&key), &queue).0 < 300);
    pushed_to.answer("204 No Content");
    forwarded_to.answer("204 No Content");
    publish(&server, &key, "pushed", "one");
    let id = publish(&server, &key, "orders", "two");
    let mut command = listen(&server, &key, &forwarded_to.url(), &["--secret", SECRET]);
    let mut listening = Server::start(&mut command, "Ctrl-C");
    let (pushed, forwarded) = (pushed_to.next(), forwarded_to.next());
    assert_eq!(shape(&pushed), shape(&forwarded));
    let body = forwarded.json();
    assert_eq!((body["id"].as_str(), body["idempotencyKey"].as_str()), (Some(id.as_str()), Some("two")));
    assert!(String::from_utf8_lossy(&forwarded.body).contains(r#""payload":{"n": 1.0}"#), "byte for byte");
    let header = |name: &str| forwarded.headers[name].as_str();
    let seconds = header("webhook-timestamp").parse().expect("seconds");
    assert_eq!((header("webhook-id"), header("idempotency-key")), (id.as_str(), "two"));
    assert_eq!(header("webhook-signature"), sign::sign(&[SECRET], &id, seconds, &forwarded.body));
    listening.wait_for(&format!("done {id}"));
    let (_, job) = server.ask("GET", &format!("/v1/jobs/{id}?wait=10"), Some(&key), "");
    assert_eq!(job["status"], "completed", "{job}");
    listening.signal(Signal::INT);
    let ended = listening.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("1 done, 0 failed, 0 deferred"), "{}", ended.stderr);
    assert!(
        !(ended.stdout + &ended.stderr).contains("sesame\n"),
        "the query is not shown with each delivery"
    );
}

#[test]
fn answers_settle_as_they_would_by_push() {
    let (server, hook) = (dev(&[]), Hook::new());
    let key = key(&server);
    let mut listening = Server::start(&mut listen(&server, &key, &hook.url(), &["--json"]), "Ctrl-C");
    assert!(listening.stderr.contains("signed with whsec_"), "{}", listening.stderr);
    // The last one holds the queue, as it does by push.
    let answers = [
        ("200 OK\r\nSemel-Effect: applied", "done", "completed"),
        ("410 Gone", "rejected", "dead"),
        ("500 Oops\r\nSemel-Retry: no", "rejected", "dead"),
        ("500 Oops", "failed", "pending"),
        ("429 Busy\r\nRetry-After: 7", "deferred", "pending"),
    ];
    for (n, (answer, outcome, status)) in answers.into_iter().enumerate() {
        let id = publish(&server, &key, "orders", &format!("key-{n}"));
        hook.answer(answer);
        let line = listening.wait_for(&id);
        let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&told["outcome"], &told["job"]), (&outcome.into(), &id.as_str().into()), "{told}");
        let job = settled(&server, &key, &id);
        assert_eq!(job["status"], status, "{answer}: {job}");
        if status == "completed" {
            assert_eq!(job["effect"]["outcome"], "applied", "{job}");
        }
    }
    let (_, queue) = server.ask("GET", "/v1/queues/orders", Some(&key), "");
    assert!(queue.to_string().contains("held"), "429 holds the queue: {queue}");
}

/// The job once its first delivery is in its history.
fn settled(server: &Server, key: &str, id: &str) -> serde_json::Value {
    let look = || server.ask("GET", &format!("/v1/jobs/{id}"), Some(key), "").1;
    let seen = |job: &serde_json::Value| job["history"].as_array().is_some_and(|history| !history.is_empty());
    std::iter::repeat_with(look).take(10_000).find(seen).expect("a settle")
}

#[test]
fn a_server_that_was_away_is_found_again() {
    let (dir, hook) = (tempfile::tempdir().expect("a directory"), Hook::new());
    let server = serve(dir.path(), ANYWHERE);
    assert!(server.ask("PUT", "/v1/queues/orders", None, r#"{"delivery":{"type":"pull"}}"#).0 < 300);
    let listening = Server::start(&mut listen(&server, "", &hook.url(), &[]), "Ctrl-C");
    let (address, mut next) = (server.address, Some(server));
    for n in 0..2 {
        let server = next.take().unwrap_or_else(|| serve(dir.path(), address));
        let body = format!(r#"{{"payload":{n}}}"#);
        let (_, job) = server.ask("POST", "/v1/queues/orders/jobs", None, &body);
        hook.answer("204 No Content");
        assert_eq!(hook.next().json()["payload"], n);
        let path = format!("/v1/jobs/{}?wait=30", job["id"].as_str().expect("an id"));
        assert_eq!(server.ask("GET", &path, None, "").1["status"], "completed");
        assert_eq!(server.stop().code, Some(0));
    }
    listening.signal(Signal::INT);
    let ended = listening.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_queue_that_pushes_is_not_listened_to() {
    let (server, hook) = (dev(&[]), Hook::new());
    let key = key(&server);
    let queue = format!(r#"{{"delivery":{{"type":"push","url":"{}"}}}}"#, hook.url());
    assert!(server.ask("PUT", "/v1/queues/orders", Some(&key), &queue).0 < 300);
    let ran = listen(&server, &key, &hook.url(), &[]).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("by itself") && said.contains("pull queue"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn what_it_cannot_do_is_told_in_one_line() {
    for (url, expected) in [
        ("http://example.com/hook", "--allow-remote"),
        ("ftp://localhost/", "http:// or https://"),
        ("localhost:8080", "http:// or https://"),
    ] {
        let refused = run::semel(&["listen", "--queue", "q", "--forward-to", url]);
        assert_eq!(refused.code, Some(2), "{url}");
        assert!(
            refused.stderr.contains(expected) && refused.stderr.lines().count() == 1,
            "{}",
            refused.stderr
        );
    }
    let server = dev(&[]);
    let ran = listen(&server, "sml_wrong", "http://localhost:1/", &[]).output().expect("it runs");
    assert_eq!(ran.status.code(), Some(4), "{}", String::from_utf8_lossy(&ran.stderr));
}
