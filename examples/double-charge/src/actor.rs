//! A worker's process, as the demonstration holds it.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::acts::Act;
use crate::failure::Failure;
use crate::word::Word;
use crate::worker::Orders;

/// The signal that nobody can catch.
const SIGKILL: i32 = 9;

pub(crate) struct Actor {
    pub(crate) pid: u32,
    child: Child,
    answers: ChildStdin,
    words: Lines<BufReader<ChildStdout>>,
}

impl Actor {
    /// Starts this very program as a worker.
    pub(crate) fn start(orders: &Orders) -> Result<Self, Failure> {
        let own = std::env::current_exe().map_err(Failure::io("find this program"))?;
        let mut command = Command::new(own);
        command.args(["worker", "--act", act(orders.act).as_str(), "--server", &orders.server]);
        command.args(["--queue", &orders.queue, "--service", &orders.service, "--shop"]).arg(&orders.shop);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(Failure::io("start a worker"))?;
        let gone = || Failure::Broken("a worker ended as soon as it was started".to_owned());
        let pid = child.id().ok_or_else(gone)?;
        let answers = child.stdin.take().ok_or_else(gone)?;
        let words = BufReader::new(child.stdout.take().ok_or_else(gone)?).lines();
        Ok(Self { pid, child, answers, words })
    }

    /// What it says next. Nothing is lost if this is dropped meanwhile.
    pub(crate) async fn word(&mut self) -> Result<Word, Failure> {
        let line = self.words.next_line().await.map_err(Failure::io("listen to a worker"))?;
        let gone = || Failure::Broken(format!("worker {} ended by itself; see above", self.pid));
        Ok(serde_json::from_str(&line.ok_or_else(gone)?)?)
    }

    /// Lets it go on.
    pub(crate) async fn go(&mut self) -> Result<(), Failure> {
        self.answers.write_all(b"go\n").await.map_err(Failure::io("answer a worker"))
    }

    /// `kill -9`, and nothing else: it is an error if the process ended in another way.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        self.child.start_kill().map_err(Failure::io("kill a worker"))?;
        let status = self.child.wait().await.map_err(Failure::io("wait for a worker"))?;
        match status.signal() {
            Some(SIGKILL) => Ok(()),
            _ => Err(Failure::Broken(format!(
                "worker {} was to be killed, and ended by itself: {status}",
                self.pid
            ))),
        }
    }
}

/// As the command line has it.
fn act(act: Act) -> String {
    use clap::ValueEnum as _;
    act.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
