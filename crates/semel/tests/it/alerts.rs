//! The commands that alerts tell people to run next.

use std::collections::BTreeSet;
use std::path::Path;

use crate::server;

/// Nobody listens there, so a command that is understood says that the server was not reached.
const NOWHERE: &str = "http://127.0.0.1:1";
const NOT_REACHED: i32 = 3;

/// The commands in the texts, with a queue where an alert would name one.
fn commands(text: &str) -> BTreeSet<String> {
    // Texts are folded, so a command may go over the end of a line.
    let words: Vec<_> = text.split_whitespace().collect();
    let joined = words.join(" ").replace("{{ $labels.queue }}", "orders");
    joined
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.starts_with("semel "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_that_an_alert_names_is_one() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/observability/alerts.yml");
    let commands = commands(&std::fs::read_to_string(file).expect("the rules are there"));
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let args = command.split(' ').skip(1);
        let ran = server::semel().args(args).env("SEMEL_SERVER", NOWHERE).output().expect("it runs");
        assert_eq!(
            ran.status.code(),
            Some(NOT_REACHED),
            "{command}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}
