//! The first page of help: commands in the order in which people come to need them.

use clap::{Command, CommandFactory};

use super::Cli;

/// Every command that is for people, below what it is for.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Start here", &["dev", "tour", "serve", "config"]),
    (
        "Work with jobs",
        &["publish", "job", "jobs", "key", "queue", "dead", "replay", "schedule", "tail", "listen", "relay"],
    ),
    (
        "Operate",
        &[
            "doctor",
            "dedupe",
            "api-key",
            "nodes",
            "backup",
            "restore",
            "store",
            "migrate",
            "move",
            "completions",
            "man",
        ],
    ),
    ("Measure", &["bench"]),
];

/// The command line as it is parsed.
pub(super) fn command() -> Command {
    let command = Cli::command();
    let template = template(&command);
    command.help_template(template)
}

/// The command line without what is not for people. Pages and completions are made from it.
pub(super) fn public() -> Command {
    let all = command();
    let shown: Vec<_> = all.get_subcommands().filter(|below| !below.is_hide_set()).cloned().collect();
    let mut bare = Command::new("semel").subcommands(shown);
    if let Some(about) = all.get_about() {
        bare = bare.about(about.clone());
    }
    if let Some(notes) = all.get_after_help() {
        bare = bare.after_help(notes.clone());
    }
    bare.version(env!("CARGO_PKG_VERSION")).subcommand_required(true)
}

fn template(command: &Command) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let widest = names.map(|name| name.len()).max().unwrap_or(0);
    let line = |name: &&str| {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        format!("  {name:widest$}  {}\n", about.map(ToString::to_string).unwrap_or_default())
    };
    let group = |(title, names): &(&str, &[&str])| {
        format!("{title}:\n{}\n", names.iter().map(line).collect::<String>())
    };
    let groups: String = GROUPS.iter().map(group).collect();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_for_people_is_in_one_group() {
        let public = public();
        let there: BTreeSet<_> = public.get_subcommands().map(Command::get_name).collect();
        let listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), there);
        assert_eq!(listed.len(), there.len(), "one of them is listed twice: {listed:?}");
    }
}
