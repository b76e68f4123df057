//! `semel serve`: how it starts, why it does not, and how it ends.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::server::{Ended, Server, answer, request, semel};
use crate::{odds, run};

struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn serve(&self) -> Server {
        Server::serve(self.path("store").as_os_str(), |_| {})
    }
}

/// Runs `semel serve` when it is not to start.
fn refused(args: &[&OsStr], variables: &[(&str, &str)]) -> Ended {
    let ran = semel().arg("serve").args(args).envs(variables.iter().copied()).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { code: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) }
}

fn new_key() -> String {
    let printed = run::semel(&["serve", "--new-key"]);
    assert_eq!(printed.code, Some(0));
    printed.stdout.trim().to_owned()
}

const PUBLISH: &str = r#"{"payload":{"n":1},"idempotencyKey":"k-1"}"#;

#[test]
fn jobs_are_there_after_a_restart() {
    let fixture = Fixture::new();
    let server = fixture.serve();
    let (status, problem) = server.ask("POST", "/v1/queues/orders/jobs", None, PUBLISH);
    assert_eq!(
        (status, &problem["code"]),
        (404, &"queue_not_found".into()),
        "queues are not made in passing: {problem}"
    );
    let queue = r#"{"delivery":{"type":"pull"}}"#;
    assert!(server.ask("PUT", "/v1/queues/orders", None, queue).0 < 300);
    let (status, first) = server.ask("POST", "/v1/queues/orders/jobs", None, PUBLISH);
    assert_eq!(status, 201, "{first}");
    assert_eq!(server.stop().code, Some(0));
    let server = fixture.serve();
    let (status, second) = server.ask("POST", "/v1/queues/orders/jobs", None, PUBLISH);
    assert_eq!((status, &second["id"]), (200, &first["id"]), "{second}");
    assert_eq!(server.stop().code, Some(0));
    let store = fixture.path("store");
    let check = run::semel(&[OsStr::new("store"), OsStr::new("check"), store.as_os_str()]);
    assert_eq!(check.code, Some(0), "{}{}", check.stdout, check.stderr);
}

#[test]
fn a_long_poll_is_answered_when_the_server_stops() {
    let fixture = Fixture::new();
    let server = fixture.serve();
    assert!(server.ask("PUT", "/v1/queues/orders", None, r#"{"delivery":{"type":"pull"}}"#).0 < 300);
    let mut waiting = server.connect();
    let body = r#"{"wait":30}"#;
    let head = format!(
        "POST /v1/queues/orders/lease HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    waiting.write_all(head.as_bytes()).unwrap();
    wait_for_continue(&mut waiting);
    waiting.write_all(body.as_bytes()).unwrap();
    server.signal(Signal::TERM);
    let (status, answer) = answer(&mut waiting);
    assert_eq!((status, answer["jobs"].as_array().map(Vec::len)), (200, Some(0)), "{answer}");
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("stopping") && ended.stderr.contains("stopped"), "{}", ended.stderr);
}

/// Reads the word that the server has begun to wait for the body.
fn wait_for_continue(stream: &mut std::net::TcpStream) {
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut read = vec![0; expected.len()];
    stream.read_exact(&mut read).expect("an answer");
    assert_eq!(read, expected, "{}", String::from_utf8_lossy(&read));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (second, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let fixture = Fixture::new();
        let mut server = fixture.serve();
        // A request that keeps the server waiting: its body never comes.
        let mut endless = server.connect();
        let head = "POST /v1/queues/q/lease HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                    Content-Type: application/json\r\nContent-Length: 10\r\n\r\n";
        endless.write_all(head.as_bytes()).unwrap();
        wait_for_continue(&mut endless);
        server.signal(Signal::TERM);
        server.wait_for("a second signal ends the process at once");
        server.signal(second);
        let ended = server.ended();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(!ended.stderr.contains("\"stopped\""), "{}", ended.stderr);
        assert_eq!(fixture.serve().stop().code, Some(0), "the store is none the worse for it");
    }
}

#[test]
fn a_server_that_others_can_reach_needs_a_key() {
    let fixture = Fixture::new();
    let store = fixture.path("store");
    let args = [OsStr::new("--listen"), OsStr::new("0.0.0.0:0"), OsStr::new("--data"), store.as_os_str()];
    let ended = refused(&args, &[]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("SEMEL_ADMIN_KEY") && ended.stderr.contains("--new-key"),
        "{}",
        ended.stderr
    );
    let key = new_key();
    let mut command = semel();
    let mut server = Server::start(command.arg("serve").args(args).env("SEMEL_ADMIN_KEY", &key), "listening");
    server.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(server.ask("GET", "/v1/queues", None, "").0, 401);
    assert_eq!(server.ask("GET", "/v1/queues", Some(&new_key()), "").0, 401);
    assert_eq!(server.ask("GET", "/v1/queues", Some(&key), "").0, 200);
    let ended = server.stop();
    assert!(!(ended.stderr + &ended.stdout).contains(&key[4..]), "the key is in the log");
    // The key stays known without the variable: a server does not become open because somebody forgot it.
    let mut server = Server::start(semel().arg("serve").args(args), "listening");
    server.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(server.ask("GET", "/v1/queues", None, "").0, 401);
    assert_eq!(server.ask("GET", "/v1/queues", Some(&key), "").0, 200);
}

#[test]
fn what_keeps_it_from_starting_is_told() {
    let fixture = Fixture::new();
    let running = fixture.serve();
    let store = fixture.path("store");
    let twice = refused(
        &[OsStr::new("--data"), store.as_os_str(), OsStr::new("--listen"), OsStr::new("127.0.0.1:0")],
        &[],
    );
    assert_eq!(twice.code, Some(2));
    assert!(twice.stderr.contains("in use by process"), "{}", twice.stderr);
    let (address, other) = (running.address.to_string(), fixture.path("other"));
    let taken = refused(
        &[OsStr::new("--data"), other.as_os_str(), OsStr::new("--listen"), OsStr::new(&address)],
        &[],
    );
    assert_eq!((taken.code, taken.stderr.lines().count()), (Some(2), 1), "{}", taken.stderr);
    assert!(taken.stderr.contains(&format!("cannot listen on {address}")), "{}", taken.stderr);
    assert!(taken.stderr.contains("--listen") && !other.exists(), "nothing is made: {}", taken.stderr);
    fs::write(fixture.path("file"), "").unwrap();
    let under = fixture.path("file/store");
    let no_dir = refused(&[OsStr::new("--data"), under.as_os_str()], &[]);
    assert_eq!(no_dir.code, Some(2));
    assert!(
        no_dir.stderr.contains("cannot make") && no_dir.stderr.contains("file/store"),
        "{}",
        no_dir.stderr
    );
    let cert = fixture.path("absent.pem");
    let tls = [OsStr::new("--tls-cert"), cert.as_os_str(), OsStr::new("--tls-key"), cert.as_os_str()];
    let data = [OsStr::new("--data"), other.as_os_str()];
    let no_cert = refused(&[tls.as_slice(), &data].concat(), &[]);
    assert_eq!((no_cert.code, no_cert.stderr.lines().count()), (Some(2), 1), "{}", no_cert.stderr);
    assert!(no_cert.stderr.contains("absent.pem") && !other.exists(), "{}", no_cert.stderr);
}

#[test]
fn a_directory_that_may_not_be_written_is_told_and_left_alone() {
    let fixture = Fixture::new();
    let closed = fixture.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    for data in [closed.clone(), closed.join("store")] {
        let Some(mut command) = odds::unprivileged() else { return };
        let ended = run::ended(command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data));
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
        assert!(ended.stderr.contains("closed") && ended.stderr.contains("denied"), "{}", ended.stderr);
    }
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
}

#[test]
fn heavy_a_store_is_not_made_on_a_full_disk() {
    let fixture = Fixture::new();
    let disk = fixture.path("disk");
    fs::create_dir(&disk).unwrap();
    let Some(mut command) = odds::on_a_small_disk(&disk, 16, r#"exec "$0" "$@""#) else { return };
    let ended =
        run::ended(command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(disk.join("store")));
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("the disk is full"), "{}", ended.stderr);
}

#[test]
fn everything_wrong_with_the_settings_is_told_at_once() {
    let fixture = Fixture::new();
    let file = fixture.path("semel.toml");
    fs::write(&file, "lisen = \"127.0.0.1:1\"\n[limits]\nbody = \"2MB\"\n").unwrap();
    let set = ["--set", "shutdown.grace=soon", "--log-level", "loud", "--tls-cert", "c.pem"].map(OsStr::new);
    let args = [&[OsStr::new("--config"), file.as_os_str()], set.as_slice()].concat();
    let ended = refused(&args, &[("SEMEL_LIMITS_CONNECTIONS", "many"), ("SEMEL_ADMIN_KEY", "hunter2")]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    for expected in [
        "lisen",
        "limits.body",
        "KiB",
        "--set shutdown.grace",
        "--log-level",
        "tls:",
        "SEMEL_LIMITS_CONNECTIONS",
        "SEMEL_ADMIN_KEY",
    ] {
        assert!(ended.stderr.contains(expected), "{expected} is missing: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

#[test]
fn the_log_is_json_where_no_terminal_is_and_text_when_asked() {
    let fixture = Fixture::new();
    let server = Server::serve(fixture.path("store").as_os_str(), |command| {
        command.args(["--log-level", "debug"]);
    });
    let ended = server.stop();
    let lines: Vec<serde_json::Value> = ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let listening = lines.iter().find(|line| line["message"] == "listening").unwrap();
    assert!(listening["address"].as_str().is_some_and(|a| a.starts_with("127.0.0.1:")), "{listening}");
    assert_eq!(listening["level"], "INFO");
    assert_eq!(ended.stdout, "");
    let server = Server::serve(fixture.path("store").as_os_str(), |command| {
        command.args(["--log-format", "text"]);
    });
    let ended = server.stop();
    assert!(ended.stderr.contains(" INFO listening address=127.0.0.1:"), "{}", ended.stderr);
}

#[test]
fn with_few_descriptors_it_takes_fewer_connections_and_goes_on() {
    let fixture = Fixture::new();
    let mut command = Command::new("sh");
    let script = "ulimit -n 64; exec \"$0\" serve --listen 127.0.0.1:0 --data \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_semel")]).arg(fixture.path("store"));
    let server = Server::start(&mut command, "listening");
    assert!(server.ask("PUT", "/v1/queues/q", None, r#"{"delivery":{"type":"pull"}}"#).0 < 300);
    let hello = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut statuses = Vec::new();
    let mut open = Vec::new();
    for _ in 0..100 {
        let mut stream = server.connect();
        // One that was closed without a word cannot be written to, or gives nothing to read.
        let mut head = [0; 12];
        if stream.write_all(hello.as_bytes()).is_ok() && stream.read_exact(&mut head).is_ok() {
            statuses.push(String::from_utf8_lossy(&head[9..]).into_owned());
        }
        open.push(stream);
    }
    let served = statuses.iter().filter(|status| *status == "200").count();
    assert!((16..64).contains(&served), "{statuses:?}");
    assert!(statuses.iter().any(|status| status == "503"), "{statuses:?}");
    drop(open);
    let body = r#"{"payload":1}"#;
    let published = std::iter::repeat_with(|| {
        let mut stream = server.connect();
        drop(stream.write_all(request("POST", "/v1/queues/q/jobs", None, body).as_bytes()));
        let mut text = String::new();
        stream.read_to_string(&mut text).is_ok() && text.starts_with("HTTP/1.1 201")
    });
    assert!(published.take(1000).any(|published| published), "it does not recover");
    assert_eq!(server.stop().code, Some(0));
}
