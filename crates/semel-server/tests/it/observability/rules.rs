//! The alerts that are shipped.

use super::page::listed;
use super::promtool::{self, metrics_in, passes, shipped};

/// What an operator is to be woken for; more are fine.
const SHIPPED: [&str; 9] = [
    "SemelDuplicateRateSpike",
    "SemelDeadLettersGrowing",
    "SemelOldestReadyTooOld",
    "SemelCollision",
    "SemelLeasesExpire",
    "SemelBreakerOpen",
    "SemelCommitsSlow",
    "SemelDiskLow",
    "SemelWindowProofFails",
];

/// The text of each alert, by its name.
fn alerts() -> Vec<(String, String)> {
    let text = promtool::read("alerts.yml");
    let texts = text.split("- alert: ").skip(1);
    texts.map(|alert| (alert.lines().next().unwrap().to_owned(), alert.to_owned())).collect()
}

#[test]
fn promtool_finds_the_rules_right() {
    passes(&["check", "rules", shipped("alerts.yml").to_str().unwrap()], "");
}

#[test]
fn each_fires_when_it_is_to_and_not_otherwise() {
    passes(&["test", "rules", shipped("alerts.test.yml").to_str().unwrap()], "");
    let names: Vec<_> = alerts().into_iter().map(|(name, _)| name).collect();
    assert!(SHIPPED.iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
    let tests = promtool::read("alerts.test.yml");
    for name in names {
        let expectations =
            tests.split("- expr: ").filter(|test| test.contains(&format!("alertname=\"{name}\"")));
        let (silent, firing): (Vec<_>, Vec<_>) =
            expectations.partition(|test| test.contains("exp_samples: []"));
        assert!(!silent.is_empty(), "no test shows when {name} does not fire");
        let fires = |test: &&str| {
            test.contains(&format!("labels: 'ALERTS{{alertname=\"{name}\", alertstate=\"firing\""))
        };
        assert!(firing.iter().any(fires), "no test shows when {name} fires");
    }
}

#[test]
fn each_says_how_bad_it_is_what_it_means_and_what_to_do_next() {
    let known = listed();
    for (name, text) in alerts() {
        assert!(text.contains("severity: warning") || text.contains("severity: critical"), "{name}");
        assert!(text.contains("summary: ") && text.contains("description: "), "{name}");
        assert!(text.contains("Next:"), "{name} does not say what to do next");
        assert!(text.contains("`semel "), "{name} names no command");
        assert!(text.contains("runbook_url: docs/operations/troubleshooting.md#"), "{name} leads nowhere");
        let expression = text.split("labels:").next().unwrap();
        let used = metrics_in(expression);
        assert!(!used.is_empty() && used.iter().all(|metric| known.contains_key(metric)), "{name}: {used:?}");
    }
}
