//! A test program once more, in a process of its own: to be killed, frozen and ended as no task inside a process can be.
//!
//! The second process runs one test that is otherwise ignored. It says words on its output, and goes on when the first one
//! lets it:
//!
//! ```no_run
//! use semel_cluster::twin::{self, Twin};
//!
//! #[test]
//! #[ignore = "a process of its own, which another test starts"]
//! fn worker() {
//!     let orders = twin::orders().expect("another test starts it, with orders");
//!     twin::say(format_args!("works on {orders}"));
//! }
//!
//! #[test]
//! fn a_worker_is_killed() {
//!     let worker = Twin::start("worker", "order 17").unwrap();
//!     assert_eq!(worker.word().unwrap(), "works on order 17");
//!     worker.kill().unwrap();
//! }
//! ```

use std::{
    fmt::Display,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use crate::{
    Error,
    patience::{PATIENCE, until},
    processes::signal,
};

/// The variable that tells a twin its orders.
const ORDERS: &str = "SEMEL_CLUSTER_TWIN";

/// What its words begin with, so that they can be told from those of the test harness.
const MARK: &str = "twin: ";

/// A process that a test has started, and leads by its input and output. It is killed when this is dropped.
#[derive(Debug)]
pub struct Twin {
    process: Child,
    input: ChildStdin,
    words: Receiver<String>,
}

impl Twin {
    /// Runs the ignored test of this name in a second process of this program.
    pub fn start(test: &str, orders: &str) -> Result<Self, Error> {
        Self::run(&mut Self::command(test, orders)?)
    }

    /// The command that does so, for those who have more to say about it.
    pub fn command(test: &str, orders: &str) -> Result<Command, Error> {
        let own = std::env::current_exe().map_err(Error::io("find this program"))?;
        let mut command = Command::new(own);
        command.args([test, "--exact", "--ignored", "--nocapture"]).env(ORDERS, orders);
        Ok(command)
    }

    /// Runs any command whose output has words like a twin's: lines with `twin: ` in front of them.
    pub fn run(command: &mut Command) -> Result<Self, Error> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::io(format!("start {}", command.get_program().display())))?;
        let input = process.stdin.take().expect("a pipe was asked for");
        let output = BufReader::new(process.stdout.take().expect("a pipe was asked for"));
        let (sender, words) = channel();
        std::thread::spawn(move || listen(output, &sender));
        Ok(Self { process, input, words })
    }

    /// The next thing it says.
    pub fn word(&self) -> Result<String, Error> {
        self.words.recv_timeout(PATIENCE).map_err(|missing| match missing {
            RecvTimeoutError::Timeout => late("a word of the other process"),
            RecvTimeoutError::Disconnected => Error::Failed {
                program: "the other process".into(),
                output: "it ended without a word".into(),
            },
        })
    }

    /// Lets it go on.
    pub fn go_on(&mut self) -> Result<(), Error> {
        self.input.write_all(b"go on\n").map_err(Error::io("let the other process go on"))
    }

    /// SIGSTOP: it does nothing more, and does not know it. Returns when all of its threads have stopped.
    pub fn freeze(&self) -> Result<(), Error> {
        signal(self.process.id(), Signal::STOP)?;
        let pid = Pid::from_child(&self.process);
        let look = || waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
        let stopped =
            until(PATIENCE, look).map_err(|errno| Error::io("wait for the other process")(errno.into()))?;
        stopped.map(drop).ok_or_else(|| late("the stop of the other process"))
    }

    /// SIGCONT.
    pub fn thaw(&self) -> Result<(), Error> {
        signal(self.process.id(), Signal::CONT)
    }

    /// SIGTERM: it is asked to end.
    pub fn ask_to_end(&self) -> Result<(), Error> {
        signal(self.process.id(), Signal::TERM)
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(mut self) -> Result<(), Error> {
        self.process.kill().map_err(Error::io("kill the other process"))?;
        self.process.wait().map(drop).map_err(Error::io("wait for the other process"))
    }

    /// Waits until it has ended by itself, and says how.
    pub fn ended(mut self) -> Result<ExitStatus, Error> {
        let ended =
            until(PATIENCE, || self.process.try_wait().map_err(Error::io("wait for the other process")))?;
        ended.ok_or_else(|| late("the end of the other process"))
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to kill.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn late(what: &str) -> Error {
    Error::TooLate { what: what.into(), limit: PATIENCE, log: String::new() }
}

/// Passes words on until the process or the test has ended. The rest of its output belongs to the harness.
fn listen(output: impl BufRead, words: &Sender<String>) {
    for line in output.lines().map_while(Result::ok) {
        if let Some((_, word)) = line.split_once(MARK)
            && words.send(word.trim().to_owned()).is_err()
        {
            return;
        }
    }
}

/// In the twin: what it is to do. `None` if somebody runs ignored tests for no reason.
pub fn orders() -> Option<String> {
    std::env::var(ORDERS).ok()
}

/// In the twin: says something, on a line of its own.
pub fn say(word: impl Display) {
    println!("\n{MARK}{word}");
}

/// In the twin: `then` is called each time that it may go on. When whoever started this process is gone, so is it.
pub fn when_let_on(then: impl Fn() + Send + 'static) {
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).for_each(|_| then());
        std::process::exit(1);
    });
}
