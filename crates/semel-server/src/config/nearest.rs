//! The setting that somebody may have meant.

use super::ADMIN_KEY_VARIABLE;
use super::settings::{SETTINGS, Setting};

/// How alike two names must be for one to be a typo of the other, from 0 to 1. `lisen` and `listen` are at 0.83, and two
/// settings with nothing in common stay below 0.5.
const ALIKE: f64 = 0.7;

/// How many letters a variable may differ in to be taken for a typo of one that is known.
const TYPO: usize = 2;

/// What the variables of settings begin with.
const PREFIX: &str = "SEMEL_";

/// Variables that are no settings, and known all the same: to the server, or to the rest of the command line.
const OTHERS: [&str; 6] = [
    ADMIN_KEY_VARIABLE,
    "SEMEL_CONFIG",
    "SEMEL_STORE",
    "SEMEL_SERVER",
    "SEMEL_API_KEY",
    "SEMEL_API_KEY_FILE",
];

/// What to say about a key that is no setting.
pub(super) fn key(unknown: &str) -> String {
    let score = |setting: &Setting| alike(unknown, setting.key);
    let best = SETTINGS.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
    let meant = best.filter(|best| score(best) >= ALIKE).map(|best| format!(", did you mean {}?", best.key));
    format!("there is no setting {unknown}{}; semel config print shows them all", meant.unwrap_or_default())
}

/// How alike two keys are. The table may have been left out, or be the wrong one.
fn alike(given: &str, known: &str) -> f64 {
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_ascii_lowercase();
    let whole =
        strsim::normalized_damerau_levenshtein(&given.to_ascii_lowercase(), &known.to_ascii_lowercase());
    // A little less than the whole key: `log.format` is nearer to itself than to any other `format`.
    whole.max(strsim::normalized_damerau_levenshtein(&last(given), &last(known)) * 0.95)
}

/// What to say about a variable that is no setting, if somebody may have meant it as one: it begins like the settings of a
/// table, or is a typo away from a known one. Any other `SEMEL_` variable is somebody else's.
pub(super) fn variable(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX)?;
    let known: Vec<_> = SETTINGS.iter().map(Setting::variable).chain(OTHERS.map(str::to_owned)).collect();
    if known.iter().any(|known| known == name) || is_kubernetes(rest) {
        return None;
    }
    let distance = |known: &String| strsim::damerau_levenshtein(name, known);
    let best = known.iter().min_by_key(|known| distance(known))?;
    let of_table = SETTINGS.iter().filter_map(|setting| setting.key.split_once('.'));
    let in_table = of_table
        .map(|(table, _)| table.to_ascii_uppercase())
        .any(|table| rest.strip_prefix(&table).is_some_and(|setting| setting.starts_with('_')));
    (in_table || distance(best) <= TYPO)
        .then(|| format!("there is no such setting, did you mean {best}? semel config print shows them all"))
}

/// Kubernetes tells a pod about its services by variables: one called `semel-store` is `SEMEL_STORE_PORT` and more.
fn is_kubernetes(rest: &str) -> bool {
    rest.split('_').any(|word| word == "SERVICE" || word == "PORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_told_what_was_meant() {
        for (given, meant) in [
            ("lisen", "listen"),
            ("limits.bodie", "limits.body"),
            ("headerTimeout", "limits.headerTimeout"),
            ("log.headerTimeout", "limits.headerTimeout"),
            ("delivery.extraCA", "delivery.extraCa"),
            ("logs.format", "log.format"),
        ] {
            let said = key(given);
            assert!(said.contains(&format!("did you mean {meant}?")), "{given}: {said}");
        }
        assert_eq!(key("frobnicate"), "there is no setting frobnicate; semel config print shows them all");
    }

    #[test]
    fn a_variable_that_may_be_meant_for_us_is_refused_and_no_other() {
        for (given, meant) in [
            ("SEMEL_LISEN", "SEMEL_LISTEN"),
            ("SEMEL_LIMITS_BODIE", "SEMEL_LIMITS_BODY"),
            ("SEMEL_LIMITS_HEADERTIMEOUT", "SEMEL_LIMITS_HEADER_TIMEOUT"),
            ("SEMEL_ADMIN_KEYS", "SEMEL_ADMIN_KEY"),
        ] {
            let said = variable(given).unwrap_or_default();
            assert!(said.contains(&format!("did you mean {meant}?")), "{given}: {said}");
        }
        for theirs in [
            "SEMEL_LISTEN",
            "SEMEL_STORE",
            "SEMEL_API_KEY",
            "SEMEL_SOAK",
            "SEMEL_SERVICE_HOST",
            "SEMEL_STORE_PORT_5432_TCP_ADDR",
            "SEMELLISTEN",
            "HOME",
        ] {
            assert_eq!(variable(theirs), None, "{theirs}");
        }
    }

    #[test]
    fn no_setting_is_taken_for_a_variable_of_kubernetes() {
        assert!(SETTINGS.iter().all(|setting| !is_kubernetes(&setting.variable())));
    }
}
