//! Where a webhook is, read once from the queue's URL.

use std::sync::Arc;

use http::Uri;
use http::header::HeaderValue;
use http::uri::PathAndQuery;
use thiserror::Error;

use super::guard;

/// A webhook's URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    origin: Arc<Origin>,
    target: Uri,
    host: HeaderValue,
}

/// What a connection leads to. Queues whose webhooks share one share its connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    /// Whether it is spoken to over TLS.
    pub(super) secure: bool,
    /// As in the URL, an IPv6 address in its brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// Why a URL cannot be called. A queue's configuration is validated before it is stored, so this is rare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the webhook's URL must be http:// or https:// with a host, without user name; set another on the queue"
)]
pub struct BadUrl;

impl Endpoint {
    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Self, BadUrl> {
        let uri: Uri = url.parse().map_err(|_| BadUrl)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(BadUrl),
        };
        let authority = uri.authority().ok_or(BadUrl)?;
        if authority.host().is_empty() || authority.as_str().contains('@') || authority.port_u16() == Some(0)
        {
            return Err(BadUrl);
        }
        let usual = if secure { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(usual);
        let name = authority.host().to_ascii_lowercase();
        let host = if port == usual { name.clone() } else { format!("{name}:{port}") };
        Ok(Self {
            target: uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")).into(),
            host: HeaderValue::try_from(host).map_err(|_| BadUrl)?,
            origin: Arc::new(Origin { secure, host: name, port }),
        })
    }

    /// Whether it is on this machine by its very name: a loopback address, or `localhost`.
    pub fn is_on_this_machine(&self) -> bool {
        let host = &self.origin.host;
        match guard::literal(host) {
            Ok(Some(address)) => address.to_canonical().is_loopback(),
            Ok(None) => host == "localhost" || host.ends_with(".localhost"),
            Err(_) => false,
        }
    }

    pub(super) fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Path and query: what the request line names.
    pub(super) fn target(&self) -> &Uri {
        &self.target
    }

    /// What may be shown of it: where it is, without the query.
    pub fn shown(&self) -> String {
        format!("{}{}", self.host.to_str().unwrap_or_default(), self.target.path())
    }

    /// The header `Host`.
    pub(super) fn host(&self) -> &HeaderValue {
        &self.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, secure, host, port, header, target) in [
            ("http://a", false, "a", 80, "a", "/"),
            (
                "HTTPS://Worker.Example/Jobs?q=A#part",
                true,
                "worker.example",
                443,
                "worker.example",
                "/Jobs?q=A",
            ),
            ("https://a:443/x", true, "a", 443, "a", "/x"),
            ("https://a:80?x", true, "a", 80, "a:80", "/?x"),
            ("http://[::1]:8080/%00", false, "[::1]", 8080, "[::1]:8080", "/%00"),
        ] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!(*endpoint.origin, Origin { secure, host: host.to_owned(), port }, "{url}");
            assert_eq!(
                (endpoint.host.to_str().unwrap(), endpoint.target.to_string()),
                (header, target.to_owned())
            );
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        let on_this_machine = |url| Endpoint::parse(url).unwrap().is_on_this_machine();
        for url in ["http://localhost:8080/x", "http://127.0.0.1", "http://[::1]:1/", "http://a.localhost/"] {
            assert!(on_this_machine(url), "{url}");
        }
        for url in
            ["http://example.com", "http://10.0.0.1", "http://127.0.0.1.example", "http://localhost.example"]
        {
            assert!(!on_this_machine(url), "{url}");
        }
    }

    #[test]
    fn what_may_be_shown_has_no_query() {
        assert_eq!(Endpoint::parse("http://a:81/x/y?token=secret").unwrap().shown(), "a:81/x/y");
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for url in [
            "",
            "/",
            "a",
            "file:///etc/passwd",
            "ftp://a/",
            "http://",
            "http://u@a",
            "http://u:p@a/",
            "http://a:0",
        ] {
            assert_eq!(Endpoint::parse(url), Err(BadUrl), "{url}");
        }
    }
}
