//! The README and the pages of `docs`: their commands are run and print what is said, their links lead somewhere, and the
//! book has all of them.
//!
//! A page's blocks of the language `console` are run from top to bottom, each page on a machine of its own
//! ([`machine`]). How output is compared is told in [`expect`], what comments above a block may say in [`page::Note`].

mod api;
mod book;
mod errors;
mod expect;
mod figures;
mod first_minute;
mod generated;
mod given;
mod inline;
mod links;
mod machine;
mod page;
mod run;
mod script;
mod terminal;
mod workers;

use std::collections::BTreeSet;

use page::{Note, Page};

use crate::run::semel;

/// Makes a test for every page whose commands are run.
macro_rules! pages {
    ($($name:ident $file:literal,)*) => {
        const RUN: &[&str] = &[$($file,)*];
        mod runs {$(
            #[test]
            fn $name() {
                super::run::page($file);
            }
        )*}
    };
}

pages! {
    readme "README.md",
    quick_start "docs/quick-start.md",
    concepts "docs/concepts.md",
    choosing_keys "docs/choosing-keys.md",
    workers "docs/workers.md",
    outbox "docs/ledger/outbox.md",
    running "docs/operations/running.md",
    backup "docs/operations/backup.md",
    troubleshooting "docs/operations/troubleshooting.md",
    timeouts "docs/operations/timeouts.md",
    postgres "docs/operations/postgres.md",
    postgres_move "docs/operations/postgres-move.md",
    command_line "docs/cli.md",
}

/// The blocks that are not run, and why. A new one needs a reason, or a better page.
const NOT_RUN: &[(&str, &str)] = &[
    ("README.md", "the next section is the first, and the second runs this page"),
    ("docs/ledger/outbox.md", "the walk-through below does the same on SQLite"),
    ("docs/ledger/redis.md", "needs the entry of a worker that has worked"),
    ("docs/operations/backup.md", "for a crontab"),
    ("docs/operations/postgres-move.md", "needs systemd"),
    ("docs/operations/postgres.md", FAILOVER),
    ("docs/operations/postgres.md", FAILOVER),
    ("docs/operations/postgres.md", FAILOVER),
    ("docs/operations/running.md", "needs systemd"),
];
const FAILOVER: &str = "needs two database servers; crates/semel-proof/tests/nodes fails them over";

#[test]
fn every_page_with_commands_is_run() {
    let has_commands = |page: &Page| page.blocks().iter().any(|block| block.language == "console");
    let with: BTreeSet<_> = Page::all().into_iter().filter(has_commands).map(|page| page.name).collect();
    let run: BTreeSet<_> = RUN.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(with, run, "left: pages with console blocks, right: pages that are run");
}

#[test]
fn what_is_not_run_says_why() {
    let mut found = Vec::new();
    for page in Page::all() {
        for block in page.blocks() {
            let shell = ["sh", "bash", "shell", "zsh"].contains(&block.language.as_str());
            match block.note {
                Some(Note::NotRun(why)) => found.push((page.name.clone(), why)),
                Some(Note::File(_)) => {}
                _ => assert!(!shell, "{}:{}: write it as console, or say why not", page.name, block.line),
            }
        }
    }
    let known: Vec<_> = NOT_RUN.iter().map(|(page, why)| ((*page).to_owned(), (*why).to_owned())).collect();
    assert_eq!(found, known);
}

/// A command in a block that is no shell's would be run by nobody.
#[test]
fn commands_stand_in_console_blocks() {
    let commands = ["$ ", "semel ", "curl ", "make ", "cargo ", "psql ", "systemctl ", "redis-cli "];
    for page in Page::all() {
        for block in page.blocks() {
            let other =
                block.language != "console" && !matches!(block.note, Some(Note::NotRun(_) | Note::File(_)));
            let found =
                block.body.iter().find(|line| commands.iter().any(|c| line.trim_start().starts_with(c)));
            if let (true, Some(line)) = (other, found) {
                panic!("{}:{}: a command that is not run: {line}", page.name, block.line);
            }
        }
    }
}

/// Settings on a page are those that a server takes.
#[test]
fn shown_settings_are_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    for page in Page::all() {
        for block in page.blocks().iter().filter(|block| block.language == "toml" && block.note.is_none()) {
            let file = dir.path().join("semel.toml");
            std::fs::write(&file, block.body.join("\n")).expect("a file");
            let judged = semel(&["config".as_ref(), "check".as_ref(), file.as_os_str()]);
            let said = judged.stdout + &judged.stderr;
            // This one needs another build, and says so.
            let good = judged.code == Some(0) || said.contains("--features otlp");
            assert!(good, "{}:{}: {said}", page.name, block.line);
        }
    }
}

/// A block that claims to be a file is that file. `SEMEL_BLESS=1` writes it anew.
#[test]
fn shown_files_are_the_files() {
    for page in Page::all() {
        let mut made = page.text.clone();
        for block in page.blocks() {
            let Some(Note::File(path)) = &block.note else { continue };
            let file =
                std::fs::read_to_string(page::root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
            let head = format!("<!-- file: {path} -->\n```{}\n", block.language);
            let (before, rest) = made.split_once(&head).unwrap_or_else(|| panic!("{}: {head}", page.name));
            let (_, after) = rest.split_once("\n```\n").expect("the end of the block");
            made = format!("{before}{head}{file}```\n{after}");
        }
        generated::compare(&page.name, &made);
    }
}
