//! `semel config`: the settings there are, and those a server would use.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use semel_core::violation::Violations;
use semel_server::config::{Config, ConfigError, DEFAULT_FILE, Effective};
use serde_json::json;

use super::settings::SettingArgs;
use super::{EXIT_CODES, Outcome, print, print_json};
use crate::failure::Failure;
use crate::table::columns;
use crate::text::printable;

const PRINT_EXAMPLES: &str = "\
Examples:
  semel config print > semel.toml          every setting with its default, explained
  semel serve --config semel.toml";

const CHECK_EXAMPLES: &str = "\
Reads the file, the variables and the flags as `semel serve` would, and the certificates they name;
nothing is started or changed. Secrets are not shown.

Examples:
  semel config check semel.toml                        is it right, and what comes from where?
  semel config check semel.toml --set limits.body=2MiB
  semel config check --json                            without a file, for a program";

/// Show all settings, or those that a server would use
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print every setting with its default, explained, as a file to begin with
    #[command(after_help = format!("{PRINT_EXAMPLES}\n\n{EXIT_CODES}"))]
    Print,
    /// Judge a configuration, and show each setting with where it comes from
    #[command(after_help = format!("{CHECK_EXAMPLES}\n\n{EXIT_CODES}"))]
    Check(Box<CheckArgs>),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The file with settings
    #[arg(env = "SEMEL_CONFIG")]
    file: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl ConfigArgs {
    /// Prints, or judges.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        match self.task {
            Task::Print => print(DEFAULT_FILE).map(|()| Outcome::Good),
            Task::Check(args) => args.run(),
        }
    }
}

impl CheckArgs {
    fn run(&self) -> Result<Outcome, Failure> {
        let sources = self.settings.sources(self.file.as_deref())?;
        let judged = match Config::explain(&sources) {
            Ok((config, settings)) => certificates(&config).into_result().map(|()| settings),
            // Wrong settings are what a check is there to find; a file that cannot be read keeps it from looking.
            Err(ConfigError::Invalid(found)) => Err(found),
            Err(other) => return Err(other.into()),
        };
        let good = judged.is_ok();
        match (self.json, judged) {
            (true, judged) => self.print_json(judged)?,
            (false, Ok(settings)) => print(&render(self.file.as_deref(), &settings))?,
            (false, Err(found)) => print(&problems(&found))?,
        }
        Ok(Outcome::of(good))
    }

    fn print_json(&self, judged: Result<Vec<Effective>, Violations>) -> Result<(), Failure> {
        let good = judged.is_ok();
        let (settings, found) = match judged {
            Ok(settings) => (settings, Violations::default()),
            Err(found) => (Vec::new(), found),
        };
        let setting = |s: &Effective| json!({ "key": s.key, "value": s.value, "source": s.source });
        print_json(&json!({
            "file": self.file,
            "good": good,
            "settings": settings.iter().map(setting).collect::<Vec<_>>(),
            "problems": found.iter().map(|v| json!({ "field": v.field, "problem": v.problem })).collect::<Vec<_>>(),
        }))
    }
}

/// What is wrong with the files that a server reads at its start.
fn certificates(config: &Config) -> Violations {
    let mut wrong = Violations::default();
    if let Err(error) = config.load_tls() {
        wrong.add("tls", error.to_string());
    }
    if let Err(error) = config.caller(config.guard()) {
        wrong.add("delivery.extraCa", error.to_string());
    }
    wrong
}

fn render(file: Option<&Path>, settings: &[Effective]) -> String {
    let what = file.map_or_else(|| "the settings".into(), |file| printable(&file.display().to_string()));
    let or = |value: &Option<String>, other: &str| value.as_deref().map_or_else(|| other.into(), printable);
    let rows = settings.iter().map(|s| [s.key.to_owned(), or(&s.value, "-"), or(&s.source, "default")]);
    format!("{what}: good; serve would use\n{}", columns(["setting", "value", "from"], rows))
}

fn problems(found: &Violations) -> String {
    let count = found.iter().count();
    let mut out = format!("NOT GOOD: {count} {}\n", if count == 1 { "problem" } else { "problems" });
    for v in found.iter() {
        writeln!(out, "  - {}: {}", printable(&v.field), printable(&v.problem))
            .expect("a String takes everything");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_sources_stand_below_each_other() {
        let effective = |key, value: Option<&str>, source: Option<&str>| Effective {
            key,
            value: value.map(str::to_owned),
            source: source.map(str::to_owned),
        };
        let settings = [
            effective("listen", Some("127.0.0.1:7477"), None),
            effective("data", Some("/d"), Some("SEMEL_DATA")),
            effective("tls.cert", None, None),
        ];
        let expected = "semel.toml: good; serve would use
  setting   value           from
  listen    127.0.0.1:7477  default
  data      /d              SEMEL_DATA
  tls.cert  -               default\n";
        assert_eq!(render(Some(Path::new("semel.toml")), &settings), expected);
    }
}
