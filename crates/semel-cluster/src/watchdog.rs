//! The end of a cluster: a small shell process that outlives whoever started it.
//!
//! A guard's `drop` does not run in a process that is killed, and the system offers no safe way to tie a child to its
//! parent's life that this workspace allows itself. A pipe does it: its reading end sees the end of file when the last
//! holder of the other end is gone, in whatever way.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{Error, home::Home};

const SCRIPT: &str = include_str!("watchdog.sh");

/// Ends a cluster when dropped, or when the process that holds it dies.
#[derive(Debug)]
pub(crate) struct Held(Child);

impl Held {
    /// From now on the directory and the processes in it live as long as this value.
    pub(crate) fn over(home: &Home) -> Result<Self, Error> {
        // Signals for the group of the test's process are not meant for the one that cleans up after it.
        let child = script("sh", home).arg("held").process_group(0).stdin(Stdio::piped()).spawn();
        child.map(Self).map_err(Error::io("start a watchdog"))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The pipe is closed by `wait`, and the answer is that everything is gone.
        if let Err(error) = self.0.wait() {
            eprintln!("semel-cluster: a watchdog is lost, its cluster may still run: {error}");
        }
    }
}

/// Starts the process that ends a shared cluster once nobody has used `place` for so long.
pub(crate) fn while_used(home: &Home, place: &Path, idle: Duration) -> Result<(), Error> {
    let seconds = idle.as_secs().max(1).to_string();
    // It outlives the test that happened to be the first, so it gets a session of its own.
    let mut command = script("setsid", home);
    let status = command.arg("used").arg(place).arg(seconds).stdin(Stdio::null()).status();
    let status = status.map_err(Error::io("start a watchdog"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { program: "setsid".into(), output: status.to_string() })
}

fn script(program: &str, home: &Home) -> Command {
    let mut command = Command::new(program);
    if program == "setsid" {
        command.args(["--fork", "sh"]);
    }
    command.args(["-c", SCRIPT, "semel-watchdog"]).arg(home.path()).current_dir("/");
    // Open pipes of a test's output would look like a leak to whoever reads them.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
