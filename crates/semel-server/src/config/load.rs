//! Reading a configuration from its sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semel_core::violation::Violations;
use toml::{Table, Value};

use super::settings::{SETTINGS, Setting};
use super::{ADMIN_KEY_VARIABLE, Config};
use crate::credentials::Secret;

/// Where a configuration comes from.
pub struct Sources<'a> {
    /// The file, if there is one.
    pub file: Option<&'a Path>,
    /// Looks a variable up.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// What the command line says: the flag as it was written, the key it stands for, and the value.
    pub flags: Vec<(String, String, String)>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration {} is not TOML: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where, and what is wrong there.
        source: toml::de::Error,
    },
    /// Settings are wrong: all of them are named.
    #[error("the configuration is not valid:\n{}", lines(.0))]
    Invalid(#[from] Violations),
}

fn lines(found: &Violations) -> String {
    let line = |v: &semel_core::violation::Violation| format!("  {}: {}", v.field, v.problem);
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Config {
    /// Reads and judges a configuration. Whatever is wrong, with values or among them, is told at once.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let (mut config, mut wrong) = (Self::default(), Violations::default());
        if let Some(path) = sources.file {
            config.take_table("", read(path)?, &mut wrong);
        }
        config.take_variables(sources.variable, &mut wrong);
        for (flag, key, value) in &sources.flags {
            config.take(flag, key, &Value::from(value.as_str()), &mut wrong);
        }
        config.check(&mut wrong);
        wrong.into_result()?;
        Ok(config)
    }

    /// Takes a table of the file: values are settings, tables hold more of them.
    fn take_table(&mut self, prefix: &str, table: Table, wrong: &mut Violations) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            match value {
                Value::Table(table) if is_table(&key) => self.take_table(&format!("{key}."), table, wrong),
                value => self.take(&key, &key, &value, wrong),
            }
        }
    }

    fn take_variables(&mut self, variable: &dyn Fn(&str) -> Option<String>, wrong: &mut Violations) {
        for setting in SETTINGS {
            let name = setting.variable();
            if let Some(value) = variable(&name) {
                self.take(&name, setting.key, &Value::from(value), wrong);
            }
        }
        self.bootstrap_key = variable(ADMIN_KEY_VARIABLE).filter(|key| !key.is_empty()).map(Secret::new);
    }

    /// Takes one value. `given` is what its author called the setting.
    fn take(&mut self, given: &str, key: &str, value: &Value, wrong: &mut Violations) {
        match Setting::named(key) {
            Some(setting) => {
                if let Err(problem) = (setting.set)(self, value) {
                    wrong.add(given, problem);
                }
            }
            None => wrong
                .add(given, format!("there is no setting {key}; semel serve --print-config shows them all")),
        }
    }
}

/// Whether settings are inside a table of this name.
fn is_table(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key.split_once('.').is_some_and(|(table, _)| table == key))
}

fn read(path: &Path) -> Result<Table, ConfigError> {
    let text =
        fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    text.parse().map_err(|source| ConfigError::Syntax { path: path.to_owned(), source })
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
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let flags =
            flags.iter().map(|(key, value)| (format!("--set {key}"), (*key).to_owned(), (*value).to_owned()));
        Config::load(&Sources { file: Some(&path), variable: &variable, flags: flags.collect() })
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
            let found = match setting.key.split_once('.') {
                Some((outer, inner)) => table.get(outer).and_then(|table| table.get(inner)),
                None => table.get(setting.key),
            };
            assert!(found.is_some(), "{} is not in the default file", setting.key);
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
        let typo = format!("{}x", &key.expose()[..39]);
        let found = violations(load("", &[(ADMIN_KEY_VARIABLE, &typo)], &[]));
        assert_eq!(found[0].0, ADMIN_KEY_VARIABLE);
        assert!(!found[0].1.contains(&typo[4..]), "a secret with a typo is still one: {found:?}");
        assert_eq!(load("", &[(ADMIN_KEY_VARIABLE, "")], &[]).unwrap().bootstrap_key, None);
    }

    #[test]
    fn a_file_that_is_absent_or_not_toml_is_named() {
        let absent =
            Sources { file: Some(Path::new("/nowhere/semel.toml")), variable: &|_| None, flags: vec![] };
        assert!(Config::load(&absent).unwrap_err().to_string().contains("/nowhere/semel.toml"));
        let error = load("listen = ", &[], &[]).unwrap_err().to_string();
        assert!(error.contains("is not TOML") && error.contains("line 1"), "{error}");
    }
}
