//! The workers in `examples/workers`, beyond what their page shows: heartbeats that are needed, effects that come again, secrets
//! that are wrong or being rotated.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::page::root;
use crate::server::{Server, semel};

/// A server to try things on, and a directory for those who work.
struct Stage {
    server: Server,
    key: String,
    dir: TempDir,
}

/// A worker. It ends with the test, and so does what it started.
struct Worker {
    child: Child,
    /// What it says. Somebody has to hold it, or it could not say anything.
    stdout: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        // One that has ended already cannot be killed; that is what is wanted.
        kill_process_group(group, Signal::KILL).unwrap_or_default();
        drop(self.child.wait());
    }
}

impl Stage {
    fn open() -> Self {
        let server = Server::start(semel().args(["dev", "--listen", "127.0.0.1:0"]), "Ctrl-C ends it");
        let key =
            server.stdout.split("SEMEL_API_KEY=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let (key, dir) = (key.expect("a key").to_owned(), tempfile::tempdir().expect("a directory"));
        Self { server, key, dir }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.server.ask(method, path, Some(&self.key), &body.to_string());
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Publishes an order; the id of its job.
    fn publish(&self, queue: &str) -> String {
        let wish = json!({ "payload": { "order": 7 }, "idempotencyKey": "order-7" });
        let job = self.ask("POST", &format!("/v1/queues/{queue}/jobs"), &wish);
        job["id"].as_str().expect("an id").to_owned()
    }

    /// The job once it has ended.
    fn ended(&self, id: &str) -> Value {
        let (_, job) = self.server.ask("GET", &format!("/v1/jobs/{id}?wait=60"), Some(&self.key), "");
        job
    }

    fn worker(&self, program: &str, file: &str, args: &[&str], variables: &[(&str, &str)]) -> Worker {
        let mut command = Command::new(program);
        command.arg(root().join("examples/workers").join(file)).args(args).current_dir(self.dir.path());
        command
            .env("SEMEL_SERVER", format!("http://{}", self.server.address))
            .env("SEMEL_API_KEY", &self.key);
        command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.process_group(0).spawn().unwrap_or_else(|e| panic!("{program}: {e}"));
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Worker { child, stdout }
    }

    /// A worker that is called, on a free port, and a queue that calls it.
    fn webhook(&self, program: &str, file: &str, queue: &str, secrets: impl Fn(&str) -> String) -> Worker {
        let delivery = json!({ "type": "push", "url": "http://127.0.0.1:1/" });
        self.ask("PUT", &format!("/v1/queues/{queue}"), &json!({ "delivery": delivery, "maxAttempts": 1 }));
        let fresh = self.ask("POST", &format!("/v1/queues/{queue}/secrets/rotate"), &json!({}));
        let secrets = secrets(fresh["secret"].as_str().expect("a secret"));
        let mut worker = self.worker(program, file, &[], &[("WEBHOOK_SECRETS", &secrets), ("PORT", "0")]);
        let mut said = String::new();
        worker.stdout.read_line(&mut said).expect("a line");
        let url = said.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{file}: {said:?}"));
        let delivery = json!({ "type": "push", "url": url });
        self.ask("PUT", &format!("/v1/queues/{queue}"), &json!({ "delivery": delivery, "maxAttempts": 1 }));
        worker
    }
}

/// The work takes longer than the lease.
#[test]
fn heartbeats_keep_the_lease() {
    let stage = Stage::open();
    let slow = [("LEASE_SECONDS", "1"), ("WORK_SECONDS", "1.5")];
    let crew = [("bash", "worker.sh"), ("python3", "worker.py"), ("node", "worker.mjs")];
    let jobs: Vec<_> = crew.iter().map(|(program, _)| stage.publish(program)).collect();
    let _workers: Vec<_> =
        crew.iter().map(|(program, file)| stage.worker(program, file, &[program], &slow)).collect();
    for id in jobs {
        let job = stage.ended(&id);
        assert_eq!((&job["status"], &job["attempts"]), (&"completed".into(), &1.into()), "{job}");
        assert_eq!(job["effect"]["outcome"], "applied", "{job}");
    }
}

#[test]
fn the_effect_of_a_key_that_comes_again_is_not_repeated() {
    let stage = Stage::open();
    for (queue, outcome) in [("orders", "applied"), ("repeated", "replayed")] {
        let id = stage.publish(queue);
        let _worker = stage.worker("python3", "worker.py", &[queue], &[]);
        let job = stage.ended(&id);
        assert_eq!(
            (&job["status"], &job["effect"]["outcome"]),
            (&"completed".into(), &outcome.into()),
            "{job}"
        );
    }
}

#[test]
fn webhooks_know_their_secrets() {
    const OTHER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let stage = Stage::open();
    for (program, file) in [("python3", "webhook.py"), ("node", "webhook.mjs")] {
        let _both = stage.webhook(program, file, &format!("{program}-both"), |own| format!("{OTHER} {own}"));
        let _wrong = stage.webhook(program, file, &format!("{program}-wrong"), |_| OTHER.to_owned());
        let good = stage.ended(&stage.publish(&format!("{program}-both")));
        assert_eq!(
            (&good["status"], &good["result"]),
            (&"completed".into(), &json!({ "sent": true })),
            "{good}"
        );
        let refused = stage.ended(&stage.publish(&format!("{program}-wrong")));
        assert_eq!(
            (&refused["status"], &refused["history"][0]["webhookStatusCode"]),
            (&"dead".into(), &401.into()),
            "{refused}"
        );
    }
}
