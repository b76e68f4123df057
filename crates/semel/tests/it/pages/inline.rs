//! Commands in the running text: they are not run, but `semel` knows each command and option that is named, and the Makefile
//! each target.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::page::{Page, root};
use crate::run::semel;

/// What there is, as the manual pages of all commands have it: one run of the program instead of one for each command.
struct Manual(tempfile::TempDir);

impl Manual {
    fn write() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let written = semel(&["man".as_ref(), "--out".as_ref(), dir.path().as_os_str()]);
        assert_eq!(written.code, Some(0), "{}", written.stderr);
        Self(dir)
    }

    /// The page of a command, without the marks of its formatting; nothing if there is no such command.
    fn page(&self, words: &[&str]) -> Option<String> {
        let name = [&["semel"], words].concat().join("-") + ".1";
        let page = fs::read_to_string(Path::new(self.0.path()).join(name)).ok()?;
        Some(page.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace('\\', ""))
    }

    /// What is wrong with a command line.
    fn wrong(&self, line: &str) -> Option<String> {
        let words: Vec<_> = line.split_whitespace().skip(1).filter(|word| *word != "help").collect();
        let mut page = self.page(&[])?;
        for end in 1..=words.iter().take_while(|word| is_name(word)).count() {
            let Some(below) = self.page(&words[..end]) else {
                // An argument, unless a command has to follow.
                let unknown =
                    page.contains("<subcommands>").then(|| format!("no command {:?}", &words[..end]));
                if unknown.is_some() {
                    return unknown;
                }
                break;
            };
            page = below;
        }
        let unknown = words.iter().filter_map(|word| option(word)).find(|option| !names(&page, option));
        unknown.map(|option| format!("no option {option}"))
    }
}

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
}

/// The name of an option, without its value.
fn option(word: &str) -> Option<&str> {
    let name = word.split(['=', ',', ']', ')']).next().unwrap_or(word).trim_start_matches('[');
    (name.starts_with("--") && name.len() > 2).then_some(name)
}

fn names(page: &str, option: &str) -> bool {
    page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == option)
}

static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([^`]+)`").expect("a pattern"));

/// What stands between backquotes and begins with a command.
fn commands(page: &Page, program: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in page.prose() {
        let all = CODE.captures_iter(text).map(|found| found[1].to_owned());
        found.extend(all.filter(|code| code.starts_with(program)).map(|code| (line, code)));
    }
    found
}

/// The alerts say what to do, with the queue in the place of a label.
fn alerts() -> Page {
    let alerts = Page::read("docs/observability/alerts.yml");
    let text = alerts.text.replace("{{ $labels.queue }}", "QUEUE");
    // Their texts are folded; a command may begin on one line and end on the next.
    Page { text: text.lines().map(str::trim).collect::<Vec<_>>().join(" "), ..alerts }
}

#[test]
fn named_commands_and_options_exist() {
    let manual = Manual::write();
    let mut found = Vec::new();
    for page in Page::all().into_iter().chain([alerts()]) {
        for (line, command) in commands(&page, "semel ") {
            found.extend(
                manual.wrong(&command).map(|wrong| format!("{}:{line}: {command}: {wrong}", page.name)),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(manual.wrong("semel stoer check").is_some());
    assert!(manual.wrong("semel store chekc").is_some());
    assert!(manual.wrong("semel store check DIR --jsno").is_some());
    assert_eq!(manual.wrong("semel store check DIR --json"), None);
}

#[test]
fn the_page_about_the_command_line_names_every_command() {
    let manual = Manual::write();
    let files =
        fs::read_dir(manual.0.path()).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let names =
        files.filter_map(|name| Some(name.to_str()?.strip_prefix("semel-")?.strip_suffix(".1")?.to_owned()));
    let names: BTreeSet<_> = names.collect();
    // `queue-set` is below `queue`, `api-key` is below nothing.
    let below = |name: &str| name.match_indices('-').any(|(end, _)| names.contains(&name[..end]));
    let page = Page::read("docs/cli.md").text;
    for name in names.iter().filter(|name| !below(name)) {
        assert!(page.contains(&format!("`semel {name}")), "docs/cli.md does not name semel {name}");
    }
    assert!(names.len() > 20, "{names:?}");
}

#[test]
fn named_targets_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    for page in Page::all() {
        for (line, command) in commands(&page, "make ") {
            let target = command.split_whitespace().nth(1).unwrap_or_default();
            let there = makefile.lines().any(|rule| rule.starts_with(&format!("{target}:")));
            assert!(there, "{}:{line}: {command}: the Makefile has no such target", page.name);
        }
    }
}
