//! `promtool`, the judge of what is written for Prometheus.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A file of `docs/observability`.
pub(super) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/observability").join(name)
}

/// Its text.
pub(super) fn read(name: &str) -> String {
    std::fs::read_to_string(shipped(name)).unwrap()
}

/// Runs promtool, with something to read; it must be content and have nothing to remark.
pub(super) fn passes(args: &[&str], input: &str) {
    let ran = run(args, input);
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "promtool {}: {said}", args.join(" "));
}

fn run(args: &[&str], input: &str) -> Output {
    let mut tool = Command::new("promtool")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is there: make need installs it");
    tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    tool.wait_with_output().unwrap()
}

/// The metrics that an expression names, without what a histogram or the library adds to a name.
pub(super) fn metrics_in(expression: &str) -> Vec<String> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let names = words.filter(|word| word.starts_with("semel_"));
    let bare = |name: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        of_histogram.unwrap_or(name).to_owned()
    };
    names.map(bare).collect()
}
