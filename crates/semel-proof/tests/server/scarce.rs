//! A server that gets little: few descriptors (fault 41), no share of the processor (fault 42).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::kit::arena::Arena;
use crate::kit::endpoint::{Endpoint, Manner};
use crate::kit::http::request;
use crate::kit::pause::{Sign, pass, until};
use crate::kit::plan::{Item, Queue};

/// Descriptors are used up by clients that stay: the others are turned away, the work goes on, and nothing dies.
#[test]
fn heavy_server_with_few_descriptors() {
    let arena = Arena::new(41);
    arena.open().kill();
    let mut server = arena.launch.start_as(arena.launch.command_by("prlimit", &["--nofile=64"]));
    let traffic = arena.traffic();
    pass(Duration::from_millis(300));
    let mut crowd: Vec<TcpStream> =
        (0..50).filter_map(|_| TcpStream::connect(arena.launch.address).ok()).collect();
    let answers: Vec<_> = crowd.iter_mut().map(ask_for_health).collect();
    let count = |wanted: Option<&str>| answers.iter().filter(|answer| answer.as_deref() == wanted).count();
    let (served, shed, closed) = (count(Some("200")), count(Some("503")), count(None));
    println!(
        "of {} connections {served} were served, {shed} told to come back, {closed} got no answer",
        crowd.len()
    );
    assert!(served > 0 && shed > 0, "{answers:?}");
    assert!(server.is_running(), "{}", server.read_log());
    drop(crowd);
    arena.finish_well(server, traffic);
}

/// More deliveries than descriptors: what the server cannot do for a reason of its own is no attempt of the worker's.
#[test]
fn heavy_server_with_fewer_descriptors_than_deliveries() {
    let arena = Arena::new(411);
    arena.open().kill();
    let server = arena.launch.start_as(arena.launch.command_by("prlimit", &["--nofile=64"]));
    let slow = Manner::Slow(Duration::from_millis(300));
    let endpoint = Endpoint::start(slow, Arc::clone(&arena.witness), Arc::new(Sign::default()));
    let url = format!("http://{}/", endpoint.address);
    arena.put(&Queue::new("slow", &json!({"type": "push", "url": url, "timeout": 5})));
    let jobs: Vec<_> = (0..100).map(|n| json!({ "payload": n })).collect();
    let mut client = arena.client();
    let answer = client.post("/v1/queues/slow/jobs/batch", &json!({ "jobs": jobs }).to_string()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    until("everything is delivered", Duration::from_secs(60), || {
        arena.unfinished().filter(|left| *left == 0)
    });
    let mut put_off = 0;
    for job in answer.json()["results"].as_array().unwrap() {
        let job = client.get(&format!("/v1/jobs/{}", job["id"].as_str().unwrap())).unwrap().json();
        assert_eq!((&job["status"], &job["attempts"]), (&json!("completed"), &json!(1)), "{job}");
        put_off += job["deferCount"].as_u64().unwrap();
    }
    println!("100 deliveries with 64 descriptors: put off {put_off} times");
    assert!(put_off > 0, "descriptors were not scarce");
    assert_eq!(endpoint.calls(), 100, "each was delivered once");
    assert_eq!(server.stop().status.code(), Some(0));
}

/// The status of an answer on a connection that stays; `None` if it was closed, or left waiting, without one.
fn ask_for_health(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(request("GET", "/healthz", "").as_bytes()).ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    Some(String::from_utf8_lossy(&head[9..]).into_owned())
}

/// A process that does nothing, as fast as it can, and ends with the test at the latest.
struct BusyLoop(Child);

impl BusyLoop {
    fn start() -> Self {
        let mut command = Command::new("timeout");
        command.args(["20", "sh", "-c", "while :; do :; done"]);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for BusyLoop {
    fn drop(&mut self) {
        // `timeout` passes a TERM on to its child; a KILL would leave that running.
        let pid =
            i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap_or_default();
        drop(self.0.wait());
    }
}

/// A worker with a long job keeps it by heartbeats, although the server hardly gets to run.
#[test]
fn heavy_server_starved_of_the_processor() {
    let arena = Arena::new(42);
    arena.open().kill();
    let server = arena.launch.start_as(arena.launch.command_by("nice", &["-n", "19"]));
    let mut client = arena.client();
    let published = arena.publish(&mut client, Item::keyed_in("plain", 1)).unwrap();
    let leased = client.post("/v1/queues/plain/lease", r#"{"leaseSeconds": 3}"#).unwrap().json();
    let lease = leased["jobs"][0]["lease"].as_str().unwrap().to_owned();
    let path = |verb: &str| format!("/v1/jobs/{}/{verb}", published.id);
    let loops = [BusyLoop::start(), BusyLoop::start()];
    for beat in 1..=8 {
        pass(Duration::from_millis(500));
        let extended =
            client.post(&path("extend"), &json!({"lease": lease, "seconds": 3}).to_string()).unwrap();
        assert_eq!(extended.status, 200, "heartbeat {beat}: {}", extended.text());
    }
    let acked = client.post(&path("ack"), &json!({ "lease": lease }).to_string()).unwrap();
    assert_eq!(acked.status, 200, "{}", acked.text());
    drop(loops);
    let job = client.get(&format!("/v1/jobs/{}", published.id)).unwrap().json();
    assert_eq!((&job["status"], &job["attempts"]), (&json!("completed"), &json!(1)), "{job}");
    assert_eq!(server.stop().status.code(), Some(0));
}
