//! Commands that talk to a server: the real binary, against a real one.

mod access;
mod busy;
mod dead;
mod look;
mod publish;
mod queues;
mod schedules;
mod terminal;
mod wrong;

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run::Ended;
use crate::server::{Server, semel};

/// A server with a store of its own, and commands that talk to it.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) server: Server,
    url: String,
    key: Option<String>,
}

impl World {
    /// A server without keys.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server that was started otherwise.
    pub(crate) fn with(change: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let server = Server::serve(dir.path().join("store").as_os_str(), change);
        let url = format!("http://{}", server.address);
        Self { dir, server, url, key: None }
    }

    /// The same, and a pull queue `orders`.
    pub(crate) fn with_orders() -> Self {
        let world = Self::new();
        world.api("PUT", "/v1/queues/orders", &json!({}));
        world
    }

    /// Commands use this key from now on.
    pub(crate) fn use_key(&mut self, key: &str) {
        self.key = Some(key.to_owned());
    }

    /// Commands go there from now on.
    pub(crate) fn go_to(&mut self, url: String) {
        self.url = url;
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("a path is text").to_owned()
    }

    /// Writes a file, and says where it is.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("it is written");
        self.path(name)
    }

    /// `semel`, as somebody would call it who has set the variables.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = semel();
        command.args(args).env("SEMEL_SERVER", &self.url).env_remove("NO_COLOR");
        if let Some(key) = &self.key {
            command.env("SEMEL_API_KEY", key);
        }
        command
    }

    /// Runs `semel ARGS...` to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ended {
        self.run_with(args, "")
    }

    /// The same with something on stdin.
    pub(crate) fn run_with<S: AsRef<OsStr>>(&self, args: &[S], input: &str) -> Ended {
        ended(&mut self.command(args), input)
    }

    /// Runs what must succeed.
    pub(crate) fn good<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        let ended = self.run(args);
        let shown: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
        assert_eq!(ended.code, Some(0), "{shown:?}: {}{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    /// Runs what must succeed, and reads its JSON.
    pub(crate) fn good_json(&self, args: &[&str]) -> Value {
        let text = self.good(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    /// Asks the server itself.
    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = self.server.ask(method, path, self.key.as_deref(), &body);
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Publishes, and returns the job's id.
    pub(crate) fn publish(&self, key: &str, payload: &Value) -> String {
        let body = json!({ "payload": payload, "idempotencyKey": key });
        let published = self.api("POST", "/v1/queues/orders/jobs", &body);
        published["id"].as_str().expect("an id").to_owned()
    }

    /// Leases a job of `orders` and settles it.
    pub(crate) fn work(&self, how: &str, with: &Value) -> String {
        let leased = self.api("POST", "/v1/queues/orders/lease", &json!({ "max": 1, "wait": 20 }));
        let job = &leased["jobs"][0];
        let mut body = with.clone();
        body["lease"] = job["lease"].clone();
        let id = job["id"].as_str().expect("a job").to_owned();
        self.api("POST", &format!("/v1/jobs/{id}/{how}"), &body);
        id
    }
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command, input: &str) -> Ended {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.expect("it starts");
    // One that ends without reading is fine.
    drop(child.stdin.take().expect("a pipe").write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A failure: this code, one line on stderr with these words, nothing on stdout.
pub(crate) fn assert_failed(ended: &Ended, code: i32, words: &str, what: &str) {
    assert_eq!(ended.code, Some(code), "{what}: {}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{what}: {}", ended.stderr);
    assert!(ended.stderr.starts_with("semel: ") && ended.stderr.contains(words), "{what}: {}", ended.stderr);
    assert_eq!(ended.stdout, "", "{what}");
}

/// Output without what differs from run to run: ids, times, spans, and how wide they are.
pub(crate) fn steady(text: &str) -> String {
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let named: Vec<_> =
            words.iter().enumerate().map(|(at, word)| word_of(word, words.get(at + 1))).collect();
        named.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn word_of(word: &str, next: Option<&&str>) -> String {
    let bare = word.trim_end_matches([',', ';', ':']);
    let rest = &word[bare.len()..];
    let is_time = bare.len() == 20 && bare.ends_with('Z') && bare.contains('T');
    let is_span = next.is_some_and(|unit| ["ms", "s"].contains(unit)) && bare.parse::<f64>().is_ok();
    let name = match bare.split_once('_').map(|(kind, _)| kind) {
        _ if is_time => "TIME",
        _ if is_span => "N",
        Some("job") => "JOB",
        Some("rpl") => "TASK",
        Some("key") => "KEY",
        _ => bare,
    };
    format!("{name}{rest}")
}
