//! Where the server is.

use std::fmt::Write as _;

use ::http::Uri;
use ::http::uri::{Authority, PathAndQuery, Scheme};

use super::Error;

/// The address of a server: scheme, host, and a path in front of all others if a proxy wants one.
#[derive(Debug, Clone)]
pub(super) struct Address {
    scheme: Scheme,
    authority: Authority,
    prefix: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Setup(format!("{url:?} is not the address of a server: {what}"));
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("{error}")))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        let scheme = scheme.ok_or_else(|| wrong("it begins with http:// or https://"))?;
        let authority = parts.authority.ok_or_else(|| wrong("it names a host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("give the API key by itself, not in the address"));
        }
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(wrong("it has no query"));
        }
        Ok(Self { scheme, authority, prefix: path.path().trim_end_matches('/').to_owned() })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The address of a resource; `path` begins with a slash and is encoded already.
    pub(super) fn at(&self, path: &str) -> Result<Uri, Error> {
        let whole = format!("{}://{}{}{path}", self.scheme, self.authority, self.prefix);
        whole.parse().map_err(|error| Error::Setup(format!("{whole} is no address: {error}")))
    }
}

/// A name as one segment of a path. What a server would refuse, such as a queue's name with a slash, gets there as it is,
/// to be refused with words.
pub(super) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a String takes everything");
        }
    }
    // A browser's dots lead elsewhere; these are a name.
    match text.as_str() {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_under_the_address() {
        let plain = Address::parse("http://127.0.0.1:7477/").unwrap();
        assert_eq!(plain.at("/v1/jobs").unwrap(), "http://127.0.0.1:7477/v1/jobs");
        let behind = Address::parse("https://example.com/semel/").unwrap();
        assert_eq!(behind.at("/v1/jobs?wait=3").unwrap(), "https://example.com/semel/v1/jobs?wait=3");
        assert!(behind.is_secure() && !plain.is_secure());
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (url, expected) in [
            ("", "not the address"),
            ("localhost:7477", "http://"),
            ("ftp://host", "http://"),
            ("http://user:secret@host", "API key"),
            ("http://host/?a=1", "no query"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
        }
    }

    #[test]
    fn a_name_is_one_segment() {
        assert_eq!(segment("orders.eu-1"), "orders.eu-1");
        assert_eq!(segment("a/b?c"), "a%2Fb%3Fc");
        assert_eq!(segment(".."), "%2E%2E");
    }
}
