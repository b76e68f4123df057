//! Where the database is: a PostgreSQL URL, with the parameters about encryption that `tokio_postgres` does not know.

use semel_store::StoreError;
use tokio_postgres::Config;

use crate::tls::Trust;

/// A database's address, read.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
}

impl Address {
    /// Reads a URL such as `postgres://user@host/database?sslmode=verify-full`, or libpq's `key=value` form.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let (rest, mode, roots) = without_tls(url);
        let verifies = matches!(mode.as_deref(), Some("verify-ca" | "verify-full"));
        let trust = match roots {
            Some(path) if path != "system" => Trust::File(path),
            _ if verifies => Trust::System,
            _ => Trust::Anyone,
        };
        // The address may hold a password, so an error must not repeat it.
        let config = rest.parse().map_err(|e: tokio_postgres::Error| {
            let cause = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
            StoreError::Open(format!(
                "the address of the database is not one ({cause}): it looks like postgres://user@host:5432/database"
            ))
        })?;
        Ok(Self { config, trust })
    }
}

/// Takes `sslrootcert` out of a URL, and makes of a `sslmode` that verifies one that `tokio_postgres` knows.
fn without_tls(url: &str) -> (String, Option<String>, Option<String>) {
    let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), None, None) };
    let (mut mode, mut roots, mut kept) = (None, None, Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslrootcert", path)) => roots = Some(decoded(path)),
            Some(("sslmode", value @ ("verify-ca" | "verify-full"))) => {
                mode = Some(value.to_owned());
                kept.push("sslmode=require");
            }
            _ => kept.push(pair),
        }
    }
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    (format!("{base}{query}"), mode, roots)
}

/// Undoes `%2F` and the like. What is no such escape stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escape = after.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match escape.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::SslMode;

    use super::*;

    #[test]
    fn a_url_says_how_far_the_server_is_trusted() {
        let trust = |url: &str| {
            let address = Address::parse(url).unwrap();
            (address.config.get_ssl_mode(), address.trust)
        };
        assert_eq!(trust("postgres://u@h/d"), (SslMode::Prefer, Trust::Anyone));
        assert_eq!(trust("postgres://u@h/d?sslmode=disable"), (SslMode::Disable, Trust::Anyone));
        assert_eq!(trust("postgres://u@h/d?sslmode=require"), (SslMode::Require, Trust::Anyone));
        assert_eq!(trust("postgres://u@h/d?sslmode=verify-full"), (SslMode::Require, Trust::System));
        assert_eq!(
            trust("postgres://u@h/d?sslmode=verify-ca&sslrootcert=%2Fetc%2Fca.pem&connect_timeout=3"),
            (SslMode::Require, Trust::File("/etc/ca.pem".into()))
        );
        assert_eq!(
            trust("postgres://u@h/d?sslmode=verify-full&sslrootcert=system"),
            (SslMode::Require, Trust::System)
        );
    }

    #[test]
    fn a_url_that_is_none_is_refused_without_telling_its_password() {
        for bad in ["postgres://u:hunter2@h:notaport/d", "postgres://u:hunter2@h/d?sslmode=maybe", "hunter2"]
        {
            let told = Address::parse(bad).unwrap_err().to_string();
            assert!(told.contains("postgres://user@host") && !told.contains("hunter2"), "{told}");
        }
    }
}
