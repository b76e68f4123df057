//! The settings that a server would use, and where each comes from.

use toml::{Table, Value};

use super::load::{Given, Reading, find};
use super::settings::{SETTINGS, Setting};
use super::{ADMIN_KEY_VARIABLE, Config, ConfigError, DEFAULT_FILE, Sources};

/// What stands for a value that must not be seen.
const HIDDEN: &str = "(hidden)";

/// A setting as a server would use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Its key, or the variable that is none.
    pub key: &'static str,
    /// Its value as it was given; `None` if it has none. A secret is hidden.
    pub value: Option<String>,
    /// The file, the variable or the flag that it comes from; `None` if nobody set it.
    pub source: Option<String>,
}

impl Config {
    /// Reads and judges a configuration as [`Config::load`] does, and tells it setting by setting.
    pub fn explain(sources: &Sources<'_>) -> Result<(Self, Vec<Effective>), ConfigError> {
        let Reading { config, given, .. } = Reading::of(sources)?;
        let defaults: Table = DEFAULT_FILE.parse().expect("a test reads the default file");
        let mut all: Vec<_> = SETTINGS
            .iter()
            .map(|setting| match given.get(setting.key) {
                Some(given) => Effective::given(setting, given),
                None => Effective::default_of(setting, &defaults),
            })
            .collect();
        all.push(Effective {
            key: ADMIN_KEY_VARIABLE,
            value: config.bootstrap_key.as_ref().map(|_| HIDDEN.to_owned()),
            source: config.bootstrap_key.as_ref().map(|_| "the environment".to_owned()),
        });
        Ok((config, all))
    }
}

impl Effective {
    fn given(setting: &Setting, given: &Given) -> Self {
        let value = if setting.secret { HIDDEN.to_owned() } else { shown(&given.value) };
        Self { key: setting.key, value: Some(value), source: Some(given.source.clone()) }
    }

    fn default_of(setting: &Setting, defaults: &Table) -> Self {
        Self { key: setting.key, value: find(defaults, setting.key).map(shown), source: None }
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials;

    #[test]
    fn every_setting_says_where_it_comes_from_and_secrets_are_hidden() {
        let key = credentials::mint();
        let variables = [("SEMEL_DATA", "/d"), (ADMIN_KEY_VARIABLE, key.expose())]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let url = "postgres://semel:hunter2@db/semel";
        let flags = vec![("--store".to_owned(), "store.url".to_owned(), url.to_owned())];
        let sources = Sources { file: None, variables: variables.into(), flags };
        let (_, all) = Config::explain(&sources).unwrap();
        let told = |key: &str| {
            let found = all.iter().find(|effective| effective.key == key).unwrap();
            (found.value.as_deref(), found.source.as_deref())
        };
        assert_eq!(told("data"), (Some("/d"), Some("SEMEL_DATA")));
        assert_eq!(told("store.url"), (Some("(hidden)"), Some("--store")));
        assert_eq!(told(ADMIN_KEY_VARIABLE), (Some("(hidden)"), Some("the environment")));
        assert_eq!(told("limits.body"), (Some("1MiB"), None));
        assert_eq!(told("delivery.allow"), (Some("[]"), None));
        assert_eq!(told("tls.cert"), (None, None));
        let text = format!("{all:?}");
        assert!(!text.contains("hunter2") && !text.contains(key.expose()), "{text}");
    }
}
