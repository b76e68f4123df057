//! Workers that are processes of their own, killed and stopped at the worst moment (faults 12 and 13).
//!
//! The worker is this test binary, run once more: [`worker_process`] leases a job, does its effect, and acks. It says on its
//! standard error what it has done and goes on when it gets a line, so that a scenario can strike between any two steps.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

use crate::kit::{Client, World, scenarios, secs};

scenarios!(
    a_worker_killed_after_its_effect_is_replaced_and_the_effect_replayed,
    a_worker_stopped_past_its_lease_is_refused_and_the_effect_happens_once,
);

/// Where the server is; set only for a worker.
const SERVER: &str = "SEMEL_TEST_WORKER_SERVER";
/// The directory of the worker's ledger.
const LEDGER: &str = "SEMEL_TEST_WORKER_LEDGER";

/// A worker in a process of its own.
struct Process {
    child: Child,
    orders: ChildStdin,
    words: BufReader<ChildStderr>,
}

impl Process {
    fn start(server: &str, ledger: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "processes::worker_process", "--nocapture"])
            .env(SERVER, server)
            .env(LEDGER, ledger)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, words) = (child.stdin.take().unwrap(), BufReader::new(child.stderr.take().unwrap()));
        Self { child, orders, words }
    }

    /// The next thing it says; empty if it is gone.
    fn says(&mut self) -> String {
        let mut line = String::new();
        tokio::task::block_in_place(|| self.words.read_line(&mut line)).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets it take its next step.
    fn go_on(&mut self) {
        self.orders.write_all(b"\n").unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Stops it, and returns when it stands still.
    fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Kills it, and returns when it is gone.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended is no error; one that has not must not outlive its scenario.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The effects that happened, by key.
fn effects(ledger: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(ledger).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A queue with a job to charge an order, and a ledger without an entry.
async fn order_to_charge(world: &World) -> (String, PathBuf) {
    let retry = json!({ "strategy": "fixed", "base": 0, "cap": 0, "jitter": "none" });
    world.queue("charges", json!({ "retry": retry })).await;
    let made = world.publish("charges", json!({ "payload": 9482, "idempotencyKey": "order-9482" })).await;
    let ledger = world.home.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    (made["id"].as_str().unwrap().to_owned(), ledger)
}

async fn a_worker_killed_after_its_effect_is_replaced_and_the_effect_replayed(world: &World) {
    let (id, ledger) = order_to_charge(world).await;
    let mut first = Process::start(world.client.base(), &ledger);
    assert_eq!(first.says(), "leased 1");
    first.go_on();
    assert_eq!(first.says(), "applied");
    first.kill();
    assert_eq!(world.job(&id).await["status"], "processing", "nobody knows yet");
    world.advance(secs(60));
    world.until(&id, "pending").await;

    let mut second = Process::start(world.client.base(), &ledger);
    assert_eq!(second.says(), "leased 2");
    second.go_on();
    assert_eq!(second.says(), "replayed");
    second.go_on();
    assert_eq!(second.says(), "ack 200");
    let job = world.job(&id).await;
    assert_eq!((&job["status"], &job["effect"]["outcome"]), (&json!("completed"), &json!("replayed")));
    let history: Vec<_> = job["history"].as_array().unwrap().iter().map(|entry| &entry["status"]).collect();
    assert_eq!(history, ["expired", "success"]);
    assert_eq!(effects(&ledger), ["order-9482"]);
}

async fn a_worker_stopped_past_its_lease_is_refused_and_the_effect_happens_once(world: &World) {
    let (id, ledger) = order_to_charge(world).await;
    let mut slow = Process::start(world.client.base(), &ledger);
    assert_eq!(slow.says(), "leased 1");
    slow.stop();
    // It will run to its end as soon as it runs at all.
    slow.go_on();
    slow.go_on();
    world.advance(secs(60));
    world.until(&id, "pending").await;

    let mut quick = Process::start(world.client.base(), &ledger);
    assert_eq!(quick.says(), "leased 2");
    quick.go_on();
    assert_eq!(quick.says(), "applied");
    slow.resume();
    assert_eq!(slow.says(), "replayed", "the ledger keeps the second effect from happening");
    assert_eq!(slow.says(), "ack 409 stale_lease");
    assert_eq!(world.job(&id).await["status"], "processing", "the stale ack settled nothing");
    quick.go_on();
    assert_eq!(quick.says(), "ack 200");
    let job = world.job(&id).await;
    assert_eq!((&job["status"], &job["effect"]["outcome"]), (&json!("completed"), &json!("applied")));
    assert_eq!(effects(&ledger), ["order-9482"]);
}

/// Records an effect under its key, and says whether this was the first time. A file that must not exist yet is the effect
/// and its record in one step, as a row with a unique key is in the ledger of a database.
fn apply(ledger: &Path, key: &str) -> &'static str {
    match OpenOptions::new().write(true).create_new(true).open(ledger.join(key)) {
        Ok(_) => "applied",
        Err(error) if error.kind() == ErrorKind::AlreadyExists => "replayed",
        Err(error) => panic!("{error}"),
    }
}

fn wait_for_order() {
    assert_ne!(std::io::stdin().read_line(&mut String::new()).unwrap(), 0, "the scenario is gone");
}

async fn work(client: &Client, ledger: &Path) {
    let answer = client.post("/v1/queues/charges/lease", json!({ "wait": 30 })).await.expect(200);
    let job: &Value = &answer["jobs"][0];
    eprintln!("leased {}", job["attempt"]);
    wait_for_order();
    let key = job["idempotencyKey"].as_str().unwrap();
    let outcome = apply(ledger, key);
    eprintln!("{outcome}");
    wait_for_order();
    let ack = json!({ "lease": job["lease"], "effect": { "outcome": outcome, "key": key } });
    let answer = client.post(&format!("/v1/jobs/{}/ack", job["id"].as_str().unwrap()), ack).await;
    let code = answer.json["code"].as_str().map(|code| format!(" {code}")).unwrap_or_default();
    eprintln!("ack {}{code}", answer.status.as_u16());
}

/// Not a test but a worker, for the scenarios above: they run this binary once more, with a server to work for.
#[tokio::test]
#[ignore = "run by the scenarios of this file, as a process of its own"]
async fn worker_process() {
    let (Ok(server), Ok(ledger)) = (std::env::var(SERVER), std::env::var(LEDGER)) else { return };
    work(&Client::to(server, None), Path::new(&ledger)).await;
}
