//! Child processes that are this program again, and the lines of JSON they send home.
//!
//! A kill is real only if it hits another process: memory, file descriptors and threads are gone, and nobody gets to
//! tidy up.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// A child process of this program.
#[derive(Debug)]
pub(crate) struct Kin {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Kin {
    /// Starts `semel child ARGS… DIR`. What it has to complain of goes to our stderr.
    pub(crate) fn spawn(args: &[&str], dir: &Path) -> Result<Self, Failure> {
        let program = env::current_exe().map_err(Failure::io("find this program"))?;
        let mut process = Command::new(program)
            .arg("child")
            .args(args)
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::io("start a child process"))?;
        let stdout = process.stdout.take().expect("stdout was asked to be a pipe");
        Ok(Self { process, lines: BufReader::new(stdout) })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line it sent; `None` at the end. A line cut short by a kill is the end too: it was never sent whole.
    pub(crate) fn next_line<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let mut line = String::new();
        self.lines.read_line(&mut line).map_err(Failure::io("read from a child process"))?;
        if !line.ends_with('\n') {
            return Ok(None);
        }
        let value = serde_json::from_str(&line)
            .map_err(|e| Failure::Broken(format!("a child process sent {line:?}: {e}")))?;
        Ok(Some(value))
    }

    /// Kills it with SIGKILL, by its process id, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<ExitStatus, Failure> {
        self.process.kill().map_err(Failure::io("kill a child process"))?;
        self.process.wait().map_err(Failure::io("wait for a child process"))
    }

    /// Waits until it ends by itself. It must end well.
    pub(crate) fn wait(mut self) -> Result<(), Failure> {
        let status = self.process.wait().map_err(Failure::io("wait for a child process"))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::Broken(format!("a child process ended with {status}")))
        }
    }
}

impl Drop for Kin {
    /// Nothing that we started outlives us. Killing a process that has ended is an error that says just that.
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}

/// Sends a line home, at once: what is in a buffer when the kill comes was never said.
pub(crate) fn say<T: Serialize>(value: &T) -> Result<(), Failure> {
    let mut line = serde_json::to_string(value).map_err(|e| Failure::Broken(e.to_string()))?;
    line.push('\n');
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(Failure::io("speak to the parent process"))
}
