//! Where spans are sent to.

use http::{HeaderMap, HeaderName, HeaderValue};
use semel_core::violation::Violations;

use super::Config;
use crate::credentials::Secret;
use crate::delivery::endpoint::Endpoint;
use crate::delivery::tls;
use crate::telemetry::{self, Export};

/// Where a collector takes traces, below its endpoint.
const TRACES: &str = "/v1/traces";

/// The variables that OpenTelemetry has for two of the settings. They count where nothing else is said.
pub(super) const STANDARD: [(&str, &str); 2] = [
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry.otlp.endpoint"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "telemetry.otlp.headers"),
];

/// Spans, and the collector they are sent to.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpConfig {
    /// The collector; without it no span is recorded.
    pub endpoint: Option<String>,
    /// What is sent to it with each request, such as a key: `name=value`, with commas between.
    pub headers: Option<Secret>,
    /// The share of publishes without a trace that begin one.
    pub sample: f64,
}

impl Default for OtlpConfig {
    fn default() -> Self {
        Self { endpoint: None, headers: None, sample: 1.0 }
    }
}

impl OtlpConfig {
    /// Notes what is wrong. `compiled`: whether this program can send spans at all.
    pub(super) fn check(&self, compiled: bool, wrong: &mut Violations) {
        let key = "telemetry.otlp.endpoint";
        wrong.require(compiled || self.endpoint.is_none(), key, || {
            "this semel was built without tracing: build it with --features otlp, or set neither this nor \
             OTEL_EXPORTER_OTLP_ENDPOINT"
                .into()
        });
        wrong.require(self.endpoint.is_none() || self.traces().is_some(), key, || {
            "must be the address of a collector's OTLP/HTTP port, such as http://127.0.0.1:4318".into()
        });
        wrong.require(self.header_map().is_some(), "telemetry.otlp.headers", || {
            "must be name=value, with commas between them; what is special in a value is written as %20"
                .into()
        });
        wrong
            .require((0.0..=1.0).contains(&self.sample), "telemetry.otlp.sample", || "must be 0 to 1".into());
    }

    /// Where traces go.
    fn traces(&self) -> Option<Endpoint> {
        let base = self.endpoint.as_ref()?.trim_end_matches('/');
        Endpoint::parse(&format!("{base}{TRACES}")).ok()
    }

    /// The headers; `None` if they make no sense.
    fn header_map(&self) -> Option<HeaderMap> {
        let text = self.headers.as_ref().map_or("", Secret::expose);
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(header).collect()
    }
}

fn header(item: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = item.split_once('=')?;
    // A plus is a plus here, and not a space as it is in forms.
    let form = format!("v={}", value.trim().replace('+', "%2B").replace('&', "%26"));
    let decoded: Vec<(String, String)> = serde_urlencoded::from_str(&form).ok()?;
    let mut value = HeaderValue::try_from(decoded.into_iter().next()?.1).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::try_from(name.trim()).ok()?, value))
}

impl Config {
    /// The way to the collector, if there is to be one.
    #[cfg(feature = "otlp")]
    pub fn export(&self) -> Result<Option<Export>, tls::TlsError> {
        use crate::delivery::guard::Guard;

        let otlp = &self.telemetry.otlp;
        let Some(endpoint) = otlp.traces() else { return Ok(None) };
        // The operator names the collector, and it is usually on a private network.
        let caller = self.caller(Guard::open_to_all())?;
        let headers = otlp.header_map().unwrap_or_default();
        Ok(Some(Export { caller, endpoint: endpoint.into(), headers, sample: otlp.sample }))
    }

    /// There is no way to a collector in this program; a configuration that names one was refused.
    #[cfg(not(feature = "otlp"))]
    pub fn export(&self) -> Result<Option<Export>, tls::TlsError> {
        Ok(None)
    }
}

/// Notes what is wrong with the settings of this program.
pub(super) fn check(config: &Config, wrong: &mut Violations) {
    config.telemetry.otlp.check(telemetry::COMPILED, wrong);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    fn found(compiled: bool, otlp: &OtlpConfig) -> Vec<String> {
        let mut wrong = Violations::default();
        otlp.check(compiled, &mut wrong);
        wrong.iter().map(|v| format!("{}: {}", v.field, v.problem)).collect()
    }

    fn to(endpoint: &str) -> OtlpConfig {
        OtlpConfig { endpoint: Some(endpoint.to_owned()), ..OtlpConfig::default() }
    }

    #[test]
    fn a_program_without_the_feature_refuses_an_endpoint() {
        assert_eq!(found(false, &OtlpConfig::default()), Vec::<String>::new());
        assert_eq!(found(true, &to("http://127.0.0.1:4318")), Vec::<String>::new());
        let refused = found(false, &to("http://127.0.0.1:4318"));
        assert!(refused[0].contains("--features otlp") && refused.len() == 1, "{refused:?}");
    }

    #[test]
    fn each_rule_names_its_setting() {
        for bad in ["127.0.0.1:4318", "grpc://collector:4317", "http://", "http://user@host"] {
            let refused = found(true, &to(bad));
            assert!(refused[0].starts_with("telemetry.otlp.endpoint: must be"), "{bad}: {refused:?}");
        }
        for bad in ["key", "a b=c", "=x", "k=a%0Ab"] {
            let refused =
                found(true, &OtlpConfig { headers: Some(Secret::new(bad)), ..OtlpConfig::default() });
            assert!(refused[0].starts_with("telemetry.otlp.headers"), "{bad}: {refused:?}");
            assert!(!refused[0].contains(bad), "a header is a secret: {refused:?}");
        }
        for sample in [-0.1, 1.1, f64::NAN] {
            assert!(
                found(true, &OtlpConfig { sample, ..OtlpConfig::default() })[0].contains("0 to 1"),
                "{sample}"
            );
        }
    }

    #[test]
    fn the_variables_of_opentelemetry_count_where_nothing_else_is_said() {
        let load = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Config::load(&Sources { variables: variables.collect(), ..Sources::default() })
                .unwrap()
                .telemetry
                .otlp
        };
        let standard = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:4318");
        assert_eq!(load(&[standard]), to("http://otel:4318"));
        assert_eq!(
            load(&[standard, ("SEMEL_TELEMETRY_OTLP_ENDPOINT", "http://own:4318")]),
            to("http://own:4318")
        );
        assert_eq!(load(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), OtlpConfig::default());
        assert_eq!(load(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b")]).headers, Some(Secret::new("a=b")));
        assert!((load(&[("SEMEL_TELEMETRY_OTLP_SAMPLE", "0.25")]).sample - 0.25).abs() < f64::EPSILON);
    }

    #[test]
    fn traces_have_a_path_of_their_own_and_headers_their_values() {
        assert_eq!(to("http://c:4318/").traces(), Endpoint::parse("http://c:4318/v1/traces").ok());
        assert_eq!(to("https://c/otlp").traces(), Endpoint::parse("https://c/otlp/v1/traces").ok());
        let headers = Some(Secret::new("api-key=a+b/c==, authorization=Bearer%20x"));
        let headers = OtlpConfig { headers, ..OtlpConfig::default() }.header_map().unwrap();
        assert_eq!(
            (&headers["api-key"], &headers["authorization"]),
            (&"a+b/c==".parse().unwrap(), &"Bearer x".parse().unwrap())
        );
    }
}
