//! Metrics written down, in the format that was asked for.
//!
//! The library writes OpenMetrics. Whoever does not ask for that gets the older text format, which every tool reads: `curl`
//! and `promtool` as well as Prometheus itself.

use std::collections::HashSet;
use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// How metrics may be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The format of Prometheus before OpenMetrics.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What the header `Accept` asks for.
    pub fn wanted(accept: Option<&str>) -> Self {
        let named = accept.unwrap_or_default().split(',').any(|kind| {
            let (name, parameters) = kind.split_once(';').unwrap_or((kind, ""));
            name.trim().eq_ignore_ascii_case("application/openmetrics-text") && !is_refused(parameters)
        });
        if named { Self::OpenMetrics } else { Self::Classic }
    }

    /// The content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes everything in the registry down.
    pub fn write(self, registry: &Registry) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, registry)?;
        Ok(match self {
            Self::OpenMetrics => text,
            Self::Classic => classic(&text),
        })
    }
}

/// A weight of nothing: "anything but this".
fn is_refused(parameters: &str) -> bool {
    let weight = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
    weight.and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
}

/// OpenMetrics as the older format: there, counters are called as their samples are, and nothing marks the end.
fn classic(text: &str) -> String {
    let is_counter =
        |line: &'_ str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: HashSet<String> = text.lines().filter_map(is_counter).collect();
    let mut classic = String::with_capacity(text.len() + text.len() / 16);
    for line in text.lines().filter(|line| *line != "# EOF") {
        match head(line).filter(|(_, name, _)| counters.contains(*name)) {
            Some((mark, name, rest)) => classic.extend([mark, name, "_total ", rest]),
            None => classic.push_str(line),
        }
        classic.push('\n');
    }
    classic
}

/// A line that describes a family: what of it, the name, and the rest.
fn head(line: &str) -> Option<(&str, &str, &str)> {
    let mark = ["# HELP ", "# TYPE "].into_iter().find(|mark| line.starts_with(mark))?;
    let (name, rest) = line[mark.len()..].split_once(' ')?;
    Some((mark, name, rest))
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, format) in [
            (Some(prometheus), Format::OpenMetrics),
            (Some("text/plain , Application/OpenMetrics-Text"), Format::OpenMetrics),
            (Some("application/openmetrics-text; version=1.0.0; q=0.0, text/plain"), Format::Classic),
            (Some("*/*"), Format::Classic),
            (Some("text/plain"), Format::Classic),
            (Some(";;,"), Format::Classic),
            (None, Format::Classic),
        ] {
            assert_eq!(Format::wanted(accept), format, "{accept:?}");
        }
    }

    #[test]
    fn a_counter_of_the_older_format_is_called_as_its_samples_are() {
        let mut registry = Registry::default();
        registry.register("things", "Things that counter", Counter::<u64>::default());
        registry.register("things_kept", "Things kept", Gauge::<i64>::default());
        assert_eq!(
            Format::Classic.write(&registry).unwrap(),
            "# HELP things_total Things that counter.\n# TYPE things_total counter\nthings_total 0\n\
             # HELP things_kept Things kept.\n# TYPE things_kept gauge\nthings_kept 0\n"
        );
        assert!(Format::OpenMetrics.write(&registry).unwrap().ends_with("# EOF\n"));
    }
}
