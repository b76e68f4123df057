//! Help that teaches, and usage errors that say what is wrong.
//!
//! Every page is kept in `help/`, so that a change of one is seen. `SEMEL_BLESS=1 cargo nextest run -p semel help` writes
//! them anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::run::semel;

/// Headings under which a page lists commands.
const HEADINGS: [&str; 5] = ["Start here:", "Work with jobs:", "Operate:", "Measure:", "Commands:"];

/// The pages of a command and of all below it, by name.
fn pages(command: &[String], into: &mut BTreeMap<String, String>) {
    let args: Vec<_> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let help = semel(&args);
    assert_eq!(help.code, Some(0), "{args:?}: {}", help.stderr);
    for below in commands(&help.stdout) {
        pages(&[command, &[below]].concat(), into);
    }
    let name = if command.is_empty() { "semel".into() } else { command.join(" ") };
    into.insert(name, help.stdout);
}

/// The commands that a page lists.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut listing = false;
    for line in page.lines() {
        listing = HEADINGS.contains(&line) || listing && !line.is_empty();
        let name = line.strip_prefix("  ").filter(|rest| listing && !rest.starts_with(' '));
        found.extend(name.and_then(|rest| rest.split(' ').next()).map(str::to_owned));
    }
    found.retain(|name| name != "help");
    found
}

/// Where the pages are kept.
fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/help")
}

#[test]
fn every_page_is_as_it_was_and_fits_a_terminal() {
    let (mut all, dir) = (BTreeMap::new(), kept());
    pages(&[], &mut all);
    assert!(all.len() > 30, "commands are missing: {:?}", all.keys());
    for (name, page) in &all {
        let widest = page.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
        assert!(widest.chars().count() <= 100, "{name}: {} wide: {widest}", widest.chars().count());
        let teaches = page.contains("Example") && page.contains("Exit codes:");
        assert!(teaches || page.contains("Commands:"), "{name} has no examples or exit codes");
    }
    if std::env::var_os("SEMEL_BLESS").is_some() {
        drop(fs::remove_dir_all(&dir));
        fs::create_dir_all(&dir).unwrap();
        all.iter().for_each(|(name, page)| fs::write(dir.join(format!("{name}.txt")), page).unwrap());
        return;
    }
    for (name, page) in &all {
        let known = fs::read_to_string(dir.join(format!("{name}.txt"))).unwrap_or_default();
        assert_eq!(*page, known, "the help of {name:?} has changed: SEMEL_BLESS=1 keeps it");
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), all.len(), "a page of a command that is gone");
}

#[test]
fn the_first_page_says_where_to_start_and_nothing_that_is_not_for_people() {
    let help = semel(&["--help"]).stdout;
    for heading in &HEADINGS[..4] {
        assert!(help.contains(heading), "{heading}: {help}");
    }
    assert!(help.find("Start here:") < help.find("Operate:"), "{help}");
    assert!(!help.contains("child"), "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = semel(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{}", script.stderr);
        assert!(script.stdout.contains("rebuild-index"), "{shell}");
        assert!(!script.stdout.contains("bench-serve"), "{shell}: what is not for people is not completed");
    }
}

#[test]
fn wrong_usage_is_told_and_is_exit_code_2() {
    let wrong: [&[&str]; 20] = [
        &[],
        &["frobnicate"],
        &["store", "check"],
        &["store", "backup", "from", "to"],
        &["backup", "from"],
        &["config", "check", "--sett", "a=b"],
        &["completions", "tcsh"],
        &["tail", "orders"],
        &["listen", "--queue", "orders"],
        &["listen", "--queue", "orders", "--forward-to", "http://localhost", "--concurrency", "0"],
        &["move", "--from", "here", "--to", "there", "--dry-run", "--verify"],
        &["migrate"],
        &["dev", "--listen", "nowhere"],
        &["serve", "--data", "here", "--store", "postgres://there/semel"],
        &["serve", "--new-key", "--data", "here"],
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

#[test]
fn manual_pages_are_written_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("man1");
    let written = semel(&["man".as_ref(), "--out".as_ref(), out.as_os_str()]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let pages = fs::read_dir(&out).unwrap().count();
    assert_eq!(pages, fs::read_dir(kept()).unwrap().count(), "as many as there are pages of help");
    assert!(written.stdout.starts_with(&format!("{pages} pages in ")), "{}", written.stdout);
    let page = fs::read_to_string(out.join("semel-store-check.1")).unwrap();
    for expected in [".TH semel-store-check 1", ".SH NOTES\n.nf", "semel store check /var/lib/semel"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let first = semel(&["man"]).stdout;
    assert!(first.contains(".TH semel 1") && first.contains("semel\\-store(1)"), "{first}");
    // Nothing is written where nothing can be.
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = semel(&["man".as_ref(), "--out".as_ref(), file.as_os_str()]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(2), 1), "{}", refused.stderr);
}
