//! The log of a server as machines read it.

use serde_json::Value;

use crate::run;
use crate::server::Server;

/// Everything secret here begins with this.
const SECRET: &str = "hush";

/// Starts a server that says all it can say, and has secrets of every kind.
fn talkative(dir: &std::path::Path, key: &str) -> Server {
    Server::serve(dir.join("store").as_os_str(), |command| {
        command.args(["--log-format", "json", "--log-level", "trace"]).env("SEMEL_ADMIN_KEY", key);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hush-collector");
    })
}

/// Duplicates, collisions, a replayed effect, a refused webhook and a stranger, each with something to hide.
fn say_secrets(server: &Server, key: &str) {
    let ask = |method, path: &str, body: &str| server.ask(method, path, Some(key), body);
    let push = r#"{"delivery":{"type":"push","url":"http://127.0.0.1:1/hook?token=hush-query"}}"#;
    for (queue, config) in [("calm", "{}"), ("picky", r#"{"onCollision":"reject"}"#), ("push", push)] {
        let (status, answer) = ask("PUT", &format!("/v1/queues/{queue}"), config);
        assert_eq!(status, 201, "{answer}");
    }
    let publish = |payload: &str| {
        format!(r#"{{"payload":"{payload}","idempotencyKey":"hush-key","group":"hush-group"}}"#)
    };
    for (queue, payload, expected) in [
        ("calm", "hush-1", 201),
        ("calm", "hush-1", 200),
        ("calm", "hush-2", 200),
        ("picky", "hush-1", 201),
        ("picky", "hush-2", 422),
        ("push", "hush-1", 201),
    ] {
        let (status, answer) = ask("POST", &format!("/v1/queues/{queue}/jobs"), &publish(payload));
        assert_eq!(status, expected, "{queue}: {answer}");
    }
    let (_, leased) = ask("POST", "/v1/queues/calm/lease", "{}");
    let (id, lease) = (&leased["jobs"][0]["id"], &leased["jobs"][0]["lease"]);
    let done = format!(
        r#"{{"lease":{lease},"result":"hush-result","effect":{{"outcome":"replayed","key":"hush-effect"}}}}"#
    );
    let (status, answer) = ask("POST", &format!("/v1/jobs/{}/ack", id.as_str().expect("an id")), &done);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(server.ask("GET", "/v1/queues", Some("sml_hush-stranger"), "").0, 401);
}

#[test]
fn every_line_is_json_deduplications_have_their_own_and_no_secret_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = run::semel(&["serve", "--new-key"]).stdout.trim().to_owned();
    let server = talkative(dir.path(), &key);
    say_secrets(&server, &key);
    let log = server.stop().stderr;
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "no {field} in {line}");
        }
    }
    let told = |event: &str, queue: &str, level: &str| {
        let of = |line: &&Value| line["event"] == event && line["queue"] == queue && line["level"] == level;
        let found: Vec<_> = lines.iter().filter(of).collect();
        assert_eq!(found.len(), 1, "{event} of {queue} at {level} in {log}");
        assert!(found[0]["job"].as_str().is_some_and(|job| job.starts_with("job_")), "{}", found[0]);
        found[0].clone()
    };
    told("job.deduplicated", "calm", "DEBUG");
    assert_eq!(told("job.collision", "calm", "INFO")["rejected"], false);
    assert_eq!(told("job.collision", "picky", "INFO")["rejected"], true);
    told("effect.replayed", "calm", "DEBUG");
    let secret =
        lines.iter().find(|line| line.to_string().contains(SECRET) || line.to_string().contains(&key));
    assert!(secret.is_none(), "{secret:?}");
}
