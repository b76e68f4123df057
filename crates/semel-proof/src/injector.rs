//! Faults in system calls, injected by strace.

use std::io;
use std::process::{Command, Stdio};

/// Runs a command with a fault in some of its system calls, as `strace -e inject=` describes it. The process stays a
/// direct child: it can be killed, and its exit code is its own.
///
/// The count of `when=` is per thread, and the thread of a store that commits is the one that syncs most.
pub fn with_fault(command: &Command, calls: &str, inject: &str) -> Command {
    let mut traced = Command::new("strace");
    traced.args(["-D", "-f", "-qq", "-o", "/dev/null"]);
    traced.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={inject}")]);
    traced.arg(command.get_program()).args(command.get_args());
    traced
}

/// Whether strace works here; the error says why not.
pub fn available() -> io::Result<()> {
    let mut probe = with_fault(&Command::new("true"), "fsync", "fsync:error=EIO");
    let output = probe.stdin(Stdio::null()).output().map_err(|e| io::Error::other(format!("strace: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("strace: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
