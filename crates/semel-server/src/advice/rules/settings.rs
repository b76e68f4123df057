//! Settings that do not cover each other: no traffic is needed to see them.

use semel_core::window::{self, Shortfall};

use super::Look;
use crate::advice::finding::{Code, Fact, Finding, Severity};

/// Everything that a queue's settings alone give away.
pub(super) fn judge(look: &Look<'_>) -> Vec<Finding> {
    let config = &look.record.config;
    let proof = window::prove(config, config.ledger_ttl).into_iter().map(|short| too_short(look, &short));
    proof.chain(payload_limit(look)).collect()
}

/// The window proof failed.
fn too_short(look: &Look<'_>, short: &Shortfall) -> Finding {
    let Shortfall { setting, has, needs, short_by, because } = short;
    let (code, severity) = match *setting {
        "window" => (Code::WindowShort, Severity::Warning),
        _ => (Code::LedgerTtlShort, Severity::Warning),
    };
    let seconds = needs.millis().div_ceil(1000);
    look.found(code, severity, format!("{setting} is {has}, {short_by} less than it has to cover"))
        .means(capitalised(because))
        .remedy(format!(
            "Set {setting} to at least {seconds} seconds ({needs}), or lower what it has to cover."
        ))
        .fact("setting", Fact::text(setting))
        .fact("has", Fact::Span(*has))
        .fact("needs", Fact::Span(*needs))
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn payload_limit(look: &Look<'_>) -> Option<Finding> {
    let (payload, body) = (u64::from(look.record.config.payload_limit), look.body_limit);
    (payload > body).then(|| {
        look.found(
            Code::PayloadLimit,
            Severity::Warning,
            format!("payloadLimit is {payload} bytes, but this server takes single publishes of {body} bytes at most"),
        )
        .means("A payload that the queue allows is refused by the server, unless it comes in a batch.")
        .remedy(format!(
            "Set limits.body in the server's configuration to more than {payload} bytes, or payloadLimit to less \
             than {body}."
        ))
        .count("payloadLimit", payload)
        .count("bodyLimit", body)
    })
}
