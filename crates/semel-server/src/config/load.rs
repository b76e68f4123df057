//! Reading a configuration from its sources.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semel_core::violation::Violations;
use toml::{Table, Value};

use super::settings::{SETTINGS, Setting};
use super::{ADMIN_KEY_VARIABLE, Config, nearest, telemetry};
use crate::credentials::Secret;

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Sources<'a> {
    /// The file, if there is one.
    pub file: Option<&'a Path>,
    /// The variables of the environment; those of others are ignored.
    pub variables: Vec<(String, String)>,
    /// What the command line says: the flag as it was written, the key it stands for, and the value.
    pub flags: Vec<(String, String, String)>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}; is it there, and may this user read it?", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration {} is not TOML: line {line}: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// In which line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// Settings are wrong: all of them are named.
    #[error("the configuration is not valid:{}", lines(.0))]
    Invalid(#[from] Violations),
}

/// One violation continues the line, several have one each.
fn lines(found: &Violations) -> String {
    let gap = if found.iter().count() == 1 { " " } else { "\n  " };
    found.iter().map(|v| format!("{gap}{}: {}", v.field, v.problem)).collect()
}

/// A value as its author gave it, and where.
pub(super) struct Given {
    pub(super) source: String,
    pub(super) value: Value,
}

/// A configuration that is being read.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) config: Config,
    /// What was given for settings, by key. The last one counts.
    pub(super) given: BTreeMap<&'static str, Given>,
    wrong: Violations,
}

/// One value on its way into a configuration.
struct Entry<'a> {
    /// What its author called the setting.
    name: &'a str,
    key: &'a str,
    source: &'a str,
}

impl Config {
    /// Reads and judges a configuration. Whatever is wrong, with values or among them, is told at once.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        Ok(Reading::of(sources)?.config)
    }
}

impl Reading {
    /// Reads and judges everything.
    pub(super) fn of(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let mut reading = Self::default();
        reading.take_standard(&sources.variables);
        if let Some(path) = sources.file {
            reading.take_table("", read(path)?, &path.display().to_string());
        }
        reading.take_variables(&sources.variables);
        for (flag, key, value) in &sources.flags {
            reading.take(&Entry { name: flag, key, source: flag }, Value::from(value.as_str()));
        }
        reading.config.check(&mut reading.wrong);
        std::mem::take(&mut reading.wrong).into_result()?;
        Ok(reading)
    }

    /// Takes a table of the file: values are settings, tables hold more of them.
    fn take_table(&mut self, prefix: &str, table: Table, source: &str) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            match value {
                Value::Table(table) if is_table(&key) => self.take_table(&format!("{key}."), table, source),
                value => self.take(&Entry { name: &key, key: &key, source }, value),
            }
        }
    }

    fn take_variables(&mut self, variables: &[(String, String)]) {
        for (name, value) in variables {
            if name == ADMIN_KEY_VARIABLE {
                self.config.bootstrap_key = Some(value).filter(|key| !key.is_empty()).map(Secret::new);
            } else if let Some(setting) = SETTINGS.iter().find(|setting| setting.variable() == *name) {
                self.take(&Entry { name, key: setting.key, source: name }, Value::from(value.as_str()));
            } else if let Some(problem) = nearest::variable(name) {
                self.wrong.add(name, problem);
            }
        }
    }

    /// What the environment says to everybody; one that is empty says nothing.
    fn take_standard(&mut self, variables: &[(String, String)]) {
        for (name, key) in telemetry::STANDARD {
            let said = variables.iter().find(|(known, value)| known == name && !value.is_empty());
            if let Some((_, value)) = said {
                self.take(&Entry { name, key, source: name }, Value::from(value.as_str()));
            }
        }
    }

    fn take(&mut self, entry: &Entry<'_>, value: Value) {
        let Some(setting) = Setting::named(entry.key) else {
            return self.wrong.add(entry.name, nearest::key(entry.key));
        };
        match (setting.set)(&mut self.config, &value) {
            Ok(()) => {
                self.given.insert(setting.key, Given { source: entry.source.to_owned(), value });
            }
            Err(problem) => self.wrong.add(entry.name, problem),
        }
    }
}

/// Whether settings are inside a table of this name.
fn is_table(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

/// The value of a setting in a file.
pub(super) fn find<'t>(table: &'t Table, key: &str) -> Option<&'t Value> {
    match key.split_once('.') {
        Some((outer, inner)) => find(table.get(outer)?.as_table()?, inner),
        None => table.get(key),
    }
}

fn read(path: &Path) -> Result<Table, ConfigError> {
    let text =
        fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        ConfigError::Syntax { path: path.to_owned(), line, problem: error.message().replace('\n', "; ") }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{DEFAULT_FILE, LogFormat};
    use crate::credentials;

    fn load(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("semel.toml");
        fs::write(&path, file).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags =
            flags.iter().map(|(key, value)| (format!("--set {key}"), (*key).to_owned(), (*value).to_owned()));
        let (variables, flags) = (variables.collect(), flags.collect());
        Config::load(&Sources { file: Some(&path), variables, flags })
    }

    fn violations(loaded: Result<Config, ConfigError>) -> Vec<(String, String)> {
        match loaded {
            Err(ConfigError::Invalid(found)) => {
                found.iter().map(|v| (v.field.clone(), v.problem.clone())).collect()
            }
            other => panic!("not refused for its settings: {other:?}"),
        }
    }

    #[test]
    fn the_default_file_says_what_the_defaults_are() {
        assert_eq!(load(DEFAULT_FILE, &[], &[]).unwrap(), Config::default());
        assert_eq!(load("", &[], &[]).unwrap(), Config::default());
    }

    #[test]
    fn the_default_file_has_every_setting() {
        // Those without a default value are there as comments: they are uncommented, so that they are read too.
        let all: String = DEFAULT_FILE
            .lines()
            .map(|l| l.strip_prefix('#').filter(|l| !l.starts_with(' ')).unwrap_or(l))
            .fold(String::new(), |text, line| text + line + "\n");
        let table: Table = all.parse().unwrap();
        for setting in SETTINGS {
            assert!(find(&table, setting.key).is_some(), "{} is not in the default file", setting.key);
        }
        load(&all, &[], &[]).unwrap();
    }

    #[test]
    fn flags_win_over_variables_and_variables_over_the_file() {
        let file = "listen = \"127.0.0.1:1\"\ndata = \"/file\"\n[limits]\nheaderTimeout = \"1s\"\n";
        let variables = [("SEMEL_DATA", "/variable"), ("SEMEL_LIMITS_HEADER_TIMEOUT", "2s")];
        let config =
            load(file, &variables, &[("limits.headerTimeout", "3s"), ("log.format", "json")]).unwrap();
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.data, Path::new("/variable"));
        assert_eq!(config.limits.header_timeout, Duration::from_secs(3));
        assert_eq!(config.log.format, LogFormat::Json);
    }

    #[test]
    fn everything_wrong_is_told_at_once_by_the_name_its_author_used() {
        let file = "lissten = 1\n[limits]\nbody = \"1MB\"\nfoo.bar = 1\n[tls]\ncert = \"x\"\n[nope]\na = 1\n";
        let found = violations(load(file, &[("SEMEL_SHUTDOWN_GRACE", "soon")], &[("log.level", "loud")]));
        let fields: Vec<_> = found.iter().map(|(field, _)| field.as_str()).collect();
        let expected = [
            "limits.body",
            "limits.foo",
            "lissten",
            "nope",
            "tls",
            "SEMEL_SHUTDOWN_GRACE",
            "--set log.level",
        ];
        for field in expected {
            assert!(fields.contains(&field), "{field} is missing in {found:?}");
        }
        assert_eq!(fields.len(), expected.len(), "{found:?}");
    }

    #[test]
    fn a_table_where_a_value_belongs_is_refused() {
        let found = violations(load("[listen]\na = 1\n", &[], &[]));
        assert_eq!(found[0].0, "listen");
    }

    #[test]
    fn the_admin_key_comes_from_its_variable_and_must_be_a_key() {
        let key = credentials::mint();
        let config = load("", &[(ADMIN_KEY_VARIABLE, key.expose())], &[]).unwrap();
        assert_eq!(config.bootstrap_key, Some(key.clone()));
        let last = if key.expose().ends_with('x') { 'y' } else { 'x' };
        let typo = format!("{}{last}", &key.expose()[..39]);
        let found = violations(load("", &[(ADMIN_KEY_VARIABLE, &typo)], &[]));
        assert_eq!(found[0].0, ADMIN_KEY_VARIABLE);
        assert!(!found[0].1.contains(&typo[4..]), "a secret with a typo is still one: {found:?}");
        assert_eq!(load("", &[(ADMIN_KEY_VARIABLE, "")], &[]).unwrap().bootstrap_key, None);
    }

    #[test]
    fn a_file_that_is_absent_or_not_toml_is_named() {
        let absent = Sources { file: Some(Path::new("/nowhere/semel.toml")), ..Sources::default() };
        assert!(Config::load(&absent).unwrap_err().to_string().contains("/nowhere/semel.toml"));
        let error = load("listen = ", &[], &[]).unwrap_err().to_string();
        assert!(error.contains("is not TOML: line 1: ") && !error.contains('\n'), "{error}");
        let error = load("metrics = true\n[limits\n", &[], &[]).unwrap_err().to_string();
        assert!(error.contains("line 2: "), "{error}");
    }

    #[test]
    fn one_mistake_is_one_line() {
        let error = load("lisen = 1", &[], &[]).unwrap_err().to_string();
        assert!(error.starts_with("the configuration is not valid: lisen: there is no setting"), "{error}");
        let error = load("lisen = 1\ndate = 2", &[], &[]).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 3, "{error}");
    }

    #[test]
    fn a_variable_with_a_typo_is_refused_like_a_key() {
        let found = violations(load("", &[("SEMEL_LIMITS_BODIE", "2MiB"), ("SEMEL_SERVICE_HOST", "x")], &[]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == "SEMEL_LIMITS_BODIE" && found[0].1.contains("SEMEL_LIMITS_BODY?"), "{found:?}");
    }
}
