//! Who asks, and whether they may.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, Method, header};
use semel_core::name::QueueName;
use semel_core::records::Scope;

use super::code::Code;
use super::keyring::Grant;
use super::problem::Problem;
use crate::service::Service;

/// Whoever makes a request.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// What their key allows; `None` on a server that is open to everybody who reaches it.
    grant: Option<Arc<Grant>>,
}

impl Caller {
    /// May they do this, to whatever queue? For what no queue limits.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Problem> {
        match &self.grant {
            Some(grant) if !grant.has(scope) => Err(Problem::new(
                Code::Forbidden,
                format!("this needs a key with the scope {}: ask for one", name(scope)),
            )),
            _ => Ok(()),
        }
    }

    /// May they do this to this queue?
    pub(super) fn may_in(&self, scope: Scope, queue: &QueueName) -> Result<(), Problem> {
        self.may(scope)?;
        match &self.grant {
            Some(grant) if !grant.covers(queue) => {
                Err(Problem::new(Code::Forbidden, format!("this key is not for queue {queue}")))
            }
            _ => Ok(()),
        }
    }

    /// May they see or do this to every queue?
    pub(super) fn may_everywhere(&self, scope: Scope) -> Result<(), Problem> {
        self.may(scope)?;
        if self.is_for_all() {
            return Ok(());
        }
        Err(Problem::new(Code::Forbidden, "this key is for some queues only: name one of them"))
    }

    /// Whether no queue is closed to them.
    pub(super) fn is_for_all(&self) -> bool {
        self.grant.as_ref().is_none_or(|grant| grant.covers_all())
    }

    /// Whether a queue is open to them.
    pub(super) fn covers(&self, queue: &QueueName) -> bool {
        self.grant.as_ref().is_none_or(|grant| grant.covers(queue))
    }

    /// What people call them.
    pub(super) fn label(&self) -> Option<String> {
        let record = &self.grant.as_ref()?.record;
        Some(if record.label.is_empty() { record.id.clone() } else { record.label.clone() })
    }
}

fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::Publish => "publish",
        Scope::Work => "work",
        Scope::Read => "read",
        Scope::Manage => "manage",
        Scope::Admin => "admin",
    }
}

impl FromRequestParts<Arc<Service>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        if service.keyring.is_open() {
            from_this_machine(parts)?;
            return Ok(Self { grant: None });
        }
        let secret = bearer(&parts.headers)?;
        let grant = service.keyring.find(secret, service.store.now()).ok_or_else(unknown_key)?;
        Ok(Self { grant: Some(grant) })
    }
}

/// Whoever asks for what is open to everybody. A server without keys answers them, too, only under a name of its machine.
#[derive(Debug)]
pub(super) struct Anybody;

impl FromRequestParts<Arc<Service>> for Anybody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        if service.keyring.is_open() {
            from_this_machine(parts)?;
        }
        Ok(Self)
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let missing =
        || Problem::new(Code::Unauthorized, "send your API key in the header: Authorization: Bearer sml_...");
    let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?.to_str().map_err(|_| missing())?;
    let (scheme, secret) = value.split_once(' ').ok_or_else(missing)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(secret.trim()) } else { Err(missing()) }
}

fn unknown_key() -> Problem {
    Problem::new(
        Code::Unauthorized,
        "this API key is not known here: it is mistyped, expired or was taken away",
    )
}

/// A server without keys trusts whoever is on its machine. A browser on that machine runs other people's pages, though:
/// they must not reach it under a name of their own (DNS rebinding), nor change anything from afar.
fn from_this_machine(parts: &Parts) -> Result<(), Problem> {
    let host = parts.headers.get(header::HOST).and_then(|value| value.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
    if !host.is_none_or(is_loopback_name) {
        let words =
            "this server has no API keys and answers only to localhost: create a key to use another name";
        return Err(Problem::new(Code::CrossSite, words));
    }
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let afar =
        parts.headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    let origin = parts.headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
    let foreign =
        origin.is_some_and(|o| !o.split_once("://").is_some_and(|(_, host)| is_loopback_name(host)));
    if !reads && (afar || foreign) {
        return Err(Problem::new(Code::CrossSite, "a page of another web site may not use this server"));
    }
    Ok(())
}

fn is_loopback_name(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback_names() {
        for yes in ["localhost", "localhost:7477", "127.0.0.1:80", "[::1]:7477", "127.9.9.9"] {
            assert!(is_loopback_name(yes), "{yes}");
        }
        for no in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "[::2]:80"]
        {
            assert!(!is_loopback_name(no), "{no}");
        }
    }
}
