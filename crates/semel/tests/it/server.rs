//! A server as a process: started, watched, asked, and ended by signals.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// A process that serves. It is killed when the test is over, whatever became of the test.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<Line>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) address: SocketAddr,
}

enum Line {
    Out(String),
    Err(String),
}

/// How a server ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// `semel`, without what the environment of the test might say.
pub(crate) fn semel() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SEMEL_")) {
        command.env_remove(name);
    }
    command
}

impl Server {
    /// Starts `semel serve` on a free port, and waits until it listens.
    pub(crate) fn serve(data: &OsStr, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = semel();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        change(&mut command);
        Self::start(&mut command, "listening")
    }

    /// Starts a server, and waits until it says that it can be reached.
    pub(crate) fn start(command: &mut Command, ready: &str) -> Self {
        let mut server = Self::spawn(command);
        let line = server.wait_for(ready);
        let anywhere = [&line, &server.stdout, &server.stderr].into_iter().find_map(|text| address(text));
        server.address = anywhere.expect("it says where it listens");
        server
    }

    /// Starts a process that says what it does, and is not waited for.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (sender, lines) = channel();
        let (out, err) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let also = sender.clone();
        thread::spawn(move || forward(out, |line| sender.send(Line::Out(line)).is_ok()));
        thread::spawn(move || forward(err, |line| also.send(Line::Err(line)).is_ok()));
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { child, lines, stdout: String::new(), stderr: String::new(), address: nowhere }
    }

    /// Waits for a line with `text` in it.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            match self.next_line() {
                Some(line) if line.contains(text) => return line,
                Some(_) => {}
                None => panic!("it ended without {text:?}: {}{}", self.stdout, self.stderr),
            }
        }
    }

    /// Reads what it has said so far.
    pub(crate) fn read_what_there_is(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.keep(line);
        }
    }

    fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => Some(self.keep(line)),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(_) => panic!("it says nothing: {}{}", self.stdout, self.stderr),
        }
    }

    fn keep(&mut self, line: Line) -> String {
        let (line, text) = match line {
            Line::Out(line) => (line, &mut self.stdout),
            Line::Err(line) => (line, &mut self.stderr),
        };
        text.push_str(&line);
        line
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits until the process has ended.
    pub(crate) fn ended(mut self) -> Ended {
        while self.next_line().is_some() {}
        let code = self.child.wait().expect("it can be waited for").code();
        Ended { code, stdout: std::mem::take(&mut self.stdout), stderr: std::mem::take(&mut self.stderr) }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        self.ended()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
        stream
    }

    /// Sends a JSON request on a connection of its own.
    pub(crate) fn ask(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> (u16, Value) {
        let mut stream = self.connect();
        stream.write_all(request(method, path, key, body).as_bytes()).expect("it reads");
        answer(&mut stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that has ended already cannot be killed; that is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A request that ends its connection.
pub(crate) fn request(method: &str, path: &str, key: Option<&str>, body: &str) -> String {
    let auth = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{auth}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// The answer on a connection that ends with it.
pub(crate) fn answer(stream: &mut TcpStream) -> (u16, Value) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let status =
        text.get(9..12).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no answer: {text:?}"));
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn forward(pipe: impl Read, send: impl Fn(String) -> bool) {
    let mut pipe = BufReader::new(pipe);
    let mut line = String::new();
    while pipe.read_line(&mut line).is_ok_and(|n| n > 0) && send(std::mem::take(&mut line)) {}
}

/// The address in a text.
fn address(text: &str) -> Option<SocketAddr> {
    let apart = |c: char| !(c.is_ascii_digit() || c == '.' || c == ':');
    text.split(apart).find_map(|word| word.trim_start_matches(':').parse().ok())
}
