//! The real `semel` as a process: started, watched, stopped by signals.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::http::Client;
use super::pause::until;

/// Longer than a start takes, however loaded the machine is.
const START_MAX: Duration = Duration::from_secs(60);

/// How to start a server: always on the same address, so that clients find it again.
#[derive(Clone)]
pub(crate) struct Launch {
    /// What its jobs are kept in: `--data` and a directory, or `--store` and the address of a database.
    keeps: [OsString; 2],
    pub(crate) address: SocketAddr,
    sets: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Launch {
    /// A server with a store of its own in a directory.
    pub(crate) fn new(data: &Path) -> Self {
        Self::on(["--data".into(), data.into()])
    }

    /// A node of a store in a database.
    pub(crate) fn node(store: &str) -> Self {
        Self::on(["--store".into(), store.into()])
    }

    fn on(keeps: [OsString; 2]) -> Self {
        let launch = Self { keeps, address: free_address(), sets: Vec::new(), variables: Vec::new() };
        launch.set("delivery.allow=127.0.0.0/8")
    }

    /// With one setting more.
    pub(crate) fn set(mut self, setting: &str) -> Self {
        self.sets.push(setting.to_owned());
        self
    }

    /// With one variable of the environment more.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command, without what the environment of the test might say.
    pub(crate) fn command(&self) -> Command {
        self.completed(Command::new(semel()))
    }

    pub(crate) fn start(&self) -> Server {
        self.start_as(self.command())
    }

    /// The command as the last arguments of another, which becomes it.
    pub(crate) fn command_by(&self, program: &str, args: &[&str]) -> Command {
        let mut by = Command::new(program);
        by.args(args).arg(semel());
        self.completed(by)
    }

    /// A command that so far says only which program to run, with everything that program needs to know.
    pub(crate) fn completed(&self, mut command: Command) -> Command {
        command.arg("serve").args(&self.keeps).arg("--listen").arg(self.address.to_string());
        command.args(self.sets.iter().flat_map(|set| ["--set", set]));
        command.envs(self.variables.iter().cloned());
        command
    }

    /// Starts a command that becomes this server, and waits until it answers.
    pub(crate) fn start_as(&self, command: Command) -> Server {
        let mut server = Server::spawn(command, self.address);
        server.wait_until_it_answers();
        server
    }
}

/// A developer's settings are not meant for the servers of a test.
fn remove_settings(command: &mut Command) {
    let own: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
    let foreign = std::env::vars_os().map(|(name, _)| name).filter(|name| !own.contains(name));
    for name in foreign.filter(|name| name.to_str().is_some_and(|name| name.starts_with("SEMEL_"))) {
        command.env_remove(name);
    }
}

/// An address that was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// The executable that the build left beside this test's.
pub(crate) fn semel() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).expect("a test runs in target/<profile>/deps");
    let semel = built.join("semel");
    assert!(semel.is_file(), "{} is missing: `cargo build -p semel` makes it", semel.display());
    semel
}

/// A server that runs. It is killed when the test is over, whatever became of the test.
pub(crate) struct Server {
    child: Child,
    lines: Mutex<Receiver<String>>,
    log: String,
    pub(crate) address: SocketAddr,
    /// From the start of the process to its first answer.
    pub(crate) took: Duration,
}

/// How a server ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) log: String,
}

impl Server {
    /// Starts a process and reads its log, so that it is never held up by a full pipe.
    pub(crate) fn spawn(mut command: Command, address: SocketAddr) -> Self {
        remove_settings(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut pipe = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while pipe.read_line(&mut line).is_ok_and(|n| n > 0)
                && sender.send(std::mem::take(&mut line)).is_ok()
            {}
        });
        Self { child, lines: Mutex::new(lines), log: String::new(), address, took: Duration::ZERO }
    }

    pub(crate) fn wait_until_it_answers(&mut self) {
        let began = Instant::now();
        until("the server answers", START_MAX, || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("it did not start: {status}\n{}", self.read_log());
            }
            let asked = Client::new(self.address).get("/healthz");
            asked.is_ok_and(|answer| answer.status == 200).then_some(())
        });
        self.took = began.elapsed();
    }

    /// What it has logged so far.
    pub(crate) fn read_log(&mut self) -> &str {
        self.log.extend(self.lines.get_mut().unwrap().try_iter());
        &self.log
    }

    /// Waits until it has logged this.
    pub(crate) fn wait_for(&mut self, text: &str) {
        until(text, START_MAX, || self.read_log().contains(text).then_some(()));
    }

    pub(crate) fn pid(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn kill(mut self) -> Ended {
        // One that was killed by an injected fault is gone already.
        drop(self.child.kill());
        self.join()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(mut self) -> Ended {
        until("the server ends", START_MAX, || self.child.try_wait().unwrap());
        self.join()
    }

    fn join(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        // The pipe ends when nobody has it any more; a tracer may hold it a moment longer.
        while let Ok(line) = self.lines.get_mut().unwrap().recv_timeout(Duration::from_secs(5)) {
            self.log.push_str(&line);
        }
        let log = std::mem::take(&mut self.log);
        // I10: whatever happens to a server, a panic is a bug.
        assert!(!log.contains("panicked at"), "{log}");
        Ended { status, log }
    }

    /// How many files and connections it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// A number of `/proc/PID/status`, such as `VmRSS`, in KiB.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).expect("the kernel tells it");
        line.split_ascii_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of KiB")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
