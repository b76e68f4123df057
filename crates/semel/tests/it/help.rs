//! Help that teaches, and usage errors that say what is wrong.

use crate::run::semel;

#[test]
fn the_first_page_names_every_command_and_where_to_start() {
    let help = semel(&["--help"]);
    assert_eq!(help.code, Some(0));
    for expected in [
        "dev",
        "serve",
        "tour",
        "store",
        "migrate",
        "nodes",
        "move",
        "relay",
        "bench",
        "Start here:",
        "semel store check /var/lib/semel",
        "Exit codes:",
    ] {
        assert!(help.stdout.contains(expected), "{expected} is missing: {}", help.stdout);
    }
    assert!(!help.stdout.contains("child"), "what is not for people is not shown: {}", help.stdout);
}

#[test]
fn every_page_fits_a_terminal() {
    let pages: [&[&str]; 19] = [
        &["--help"],
        &["dev", "--help"],
        &["serve", "--help"],
        &["tour", "--help"],
        &["store", "--help"],
        &["store", "check", "--help"],
        &["store", "rebuild-index", "--help"],
        &["store", "stats", "--help"],
        &["store", "backup", "--help"],
        &["store", "restore", "--help"],
        &["migrate", "--help"],
        &["nodes", "--help"],
        &["move", "--help"],
        &["relay", "--help"],
        &["relay", "retry", "--help"],
        &["relay", "schema", "--help"],
        &["bench", "--help"],
        &["bench", "store", "--help"],
        &["bench", "ledger", "--help"],
    ];
    for page in pages {
        let help = semel(page);
        assert_eq!(help.code, Some(0), "{page:?}: {}", help.stderr);
        let widest = help.stdout.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{page:?} is {widest:?} wide: {}", help.stdout);
    }
}

#[test]
fn wrong_usage_is_told_and_is_exit_code_2() {
    let wrong: [&[&str]; 14] = [
        &[],
        &["frobnicate"],
        &["store", "check"],
        &["move", "--from", "here", "--to", "there", "--dry-run", "--verify"],
        &["migrate"],
        &["nodes", "--json"],
        &["dev", "--listen", "nowhere"],
        &["serve", "--data", "here", "--store", "postgres://there/semel"],
        &["serve", "--print-config", "--new-key"],
        &["relay"],
        &["relay", "--database", "sqlite:x.db"],
        &["relay", "retry", "--database", "sqlite:x.db"],
        &["bench", "store", "--keys", "many"],
        &["bench", "store", "--runs", "0"],
    ];
    for args in wrong {
        let ended = semel(args);
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(
            ended.stderr.contains("Usage:") || ended.stderr.contains("--help"),
            "{args:?}: {}",
            ended.stderr
        );
    }
}
