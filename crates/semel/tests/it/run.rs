//! Runs the binary.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use serde_json::Value;

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
    let output = Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(args)
        .stdin(Stdio::null())
        .env_remove("NO_COLOR")
        .output()
        .expect("the binary is built");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
