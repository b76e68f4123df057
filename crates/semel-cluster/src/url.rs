//! Connection URLs of throw-away clusters.

use std::{fmt::Write, net::SocketAddr, path::Path};

/// The superuser of every cluster that this crate makes.
pub(crate) const USER: &str = "postgres";

/// A URL through the socket in this directory.
pub(crate) fn by_socket(directory: &Path, port: u16, database: &str) -> String {
    format!("postgres://{USER}@{}:{port}/{database}", escaped(&directory.display().to_string()))
}

/// A URL through TCP.
pub(crate) fn by_address(address: SocketAddr, password: &str, database: &str) -> String {
    format!("postgres://{USER}:{password}@{address}/{database}")
}

/// Percent-encoded, so that a path may stand where URLs have a host.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a String takes everything");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_where_the_host_would() {
        let url = by_socket(Path::new("/tmp/semel pg"), 5432, "one");
        assert_eq!(url, "postgres://postgres@%2Ftmp%2Fsemel%20pg:5432/one");
    }
}
