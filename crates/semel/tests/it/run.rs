//! Runs the binary.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::server;

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not JSON ({e}): {}{}", self.stdout, self.stderr))
    }
}

/// Runs `semel ARGS…` to its end.
pub(crate) fn semel<S: AsRef<OsStr>>(args: &[S]) -> Ended {
    ended(server::semel().args(args).env_remove("NO_COLOR"))
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().expect("it can be run");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
