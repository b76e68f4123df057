//! `semel dev`: what it prints can be done as it is printed.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::server::{Server, semel};

const READY: &str = "Ctrl-C ends it";

fn dev(args: &[&str]) -> Server {
    Server::start(semel().args(["dev", "--listen", "127.0.0.1:0"]).args(args), READY)
}

/// The key that was printed.
fn key(server: &Server) -> String {
    let key = server.stdout.lines().find_map(|line| line.strip_prefix("The key of this run: "));
    key.expect("a key").to_owned()
}

/// Runs shell lines, as somebody would who copies them.
fn shell(lines: &[&str]) -> Value {
    let ran = Command::new("sh").arg("-ec").arg(lines.join("\n")).output().expect("a shell");
    let text = String::from_utf8(ran.stdout).expect("text");
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{lines:?}: {e}: {text}{}", String::from_utf8_lossy(&ran.stderr)))
}

#[test]
fn the_lines_it_prints_do_what_they_say() {
    let server = dev(&[]);
    let text = server.stdout.clone();
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let export = *lines.iter().find(|line| line.starts_with("export ")).unwrap();
    let [publish, again, lease, ack] =
        lines.iter().copied().filter(|line| line.starts_with("curl ")).collect::<Vec<_>>()[..]
    else {
        panic!("four lines to try: {text}")
    };
    let first = shell(&[export, publish]);
    assert_eq!(first["deduplicated"], false, "{first}");
    let second = shell(&[export, again]);
    assert_eq!((&second["deduplicated"], &second["id"]), (&true.into(), &first["id"]), "{second}");
    let leased = shell(&[export, lease]);
    let job = &leased["jobs"][0];
    assert_eq!((&job["id"], &job["payload"]["order"]), (&first["id"], &1.into()), "{leased}");
    let filled =
        ack.replace("JOB_ID", job["id"].as_str().unwrap()).replace("LEASE", job["lease"].as_str().unwrap());
    assert_eq!(shell(&[export, &filled])["accepted"], true);
    let key = key(&server);
    server.signal(Signal::INT);
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains(&key), "the key is in the log: {}", ended.stderr);
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
