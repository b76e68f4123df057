//! The Grafana board that is shipped.

use std::fmt::Write;

use serde_json::Value;

use super::page::listed;
use super::promtool::{self, metrics_in, passes};

/// What an operator looks for on it, by the metric that shows it.
const SHOWN: [&str; 14] = [
    "semel_publishes_total",
    "semel_deliveries_total",
    "semel_job_duplicates_total",
    "semel_effects_total",
    "semel_dead_letters",
    "semel_oldest_ready_age_seconds",
    "semel_delivery_duration_seconds",
    "semel_lease_expirations_total",
    "semel_holds_total",
    "semel_breaker_state",
    "semel_commit_duration_seconds",
    "semel_store_size_bytes",
    "semel_store_free_bytes",
    "semel_keys",
];

fn board() -> Value {
    serde_json::from_str(&promtool::read("grafana.json")).unwrap()
}

/// Every expression of every panel, with Grafana's variables filled in as it would.
fn expressions(board: &Value) -> Vec<String> {
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let filled = |text: &str| text.replace("$__rate_interval", "1m").replace("$queue", ".*");
    targets.map(|target| filled(target["expr"].as_str().unwrap())).collect()
}

#[test]
fn every_expression_parses_and_uses_only_what_is_exposed() {
    let (board, known) = (board(), listed());
    let expressions = expressions(&board);
    let mut rules = String::from("groups:\n- name: board\n  rules:\n");
    for (number, expression) in expressions.iter().enumerate() {
        assert!(!expression.contains('$'), "a variable that this test does not know: {expression}");
        let used = metrics_in(expression);
        assert!(!used.is_empty() && used.iter().all(|metric| known.contains_key(metric)), "{expression}");
        // Text as JSON writes it is text as YAML reads it.
        writeln!(rules, "  - record: board:n{number}\n    expr: {}", Value::from(expression.as_str()))
            .unwrap();
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    passes(&["check", "rules", file.path().to_str().unwrap()], "");
}

#[test]
fn it_shows_what_an_operator_looks_for_and_can_be_narrowed_to_queues() {
    let board = board();
    let used: Vec<_> = expressions(&board).iter().flat_map(|expression| metrics_in(expression)).collect();
    for metric in SHOWN {
        assert!(used.iter().any(|one| one == metric), "{metric} is on no panel");
    }
    let variables: Vec<_> =
        board["templating"]["list"].as_array().unwrap().iter().map(|variable| &variable["name"]).collect();
    assert_eq!(variables, ["datasource", "queue"]);
    let mut ids: Vec<_> =
        board["panels"].as_array().unwrap().iter().map(|panel| panel["id"].as_u64()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "every panel has a number of its own");
}
