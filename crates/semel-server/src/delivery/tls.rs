//! Whom to believe on the other side of a secure connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// Why the certificates of the authorities could not be loaded.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The file of additional authorities cannot be used.
    #[error("cannot read authorities from {path}: {source}; it must be a PEM file of certificates")]
    ExtraCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A certificate in that file cannot be an authority's.
    #[error("{path} holds a certificate that cannot be used: {source}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// The cryptographic library offers no protocol version.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// The settings of every secure connection: the system's authorities, and those of the operator's own file if there is one.
///
/// A system without any authority is not refused: its queues may all be plain HTTP, and an HTTPS endpoint then fails with
/// an error that says so.
pub(super) fn client_config(extra_ca: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = system_roots();
    if let Some(path) = extra_ca {
        add_file(&mut roots, path)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A delivery occupies its connection until it is answered, so HTTP/2 has nothing to multiplex for one queue slot.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn system_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some certificates of the system cannot be read");
    }
    let mut roots = RootCertStore::empty();
    // Systems carry the odd certificate that no parser accepts; the others count.
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        tracing::warn!("the system has no certificate authorities: webhooks over https will fail");
    }
    roots
}

/// Unlike the system's, this file was named on purpose: all of it must be usable.
fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let unreadable = |source| TlsError::ExtraCa { path: path.to_owned(), source };
    let mut count = 0;
    for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        let certificate = certificate.map_err(unreadable)?;
        roots.add(certificate).map_err(|source| TlsError::Certificate { path: path.to_owned(), source })?;
        count += 1;
    }
    if count == 0 { Err(unreadable(pem::Error::NoItemsFound)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(text: &str) -> Result<Arc<ClientConfig>, TlsError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, text).unwrap();
        client_config(Some(&path))
    }

    #[test]
    fn a_file_of_authorities_must_hold_some() {
        let der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let own = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap().cert.pem();
        assert!(matches!(client_config(Some(Path::new("/nowhere/ca.pem"))), Err(TlsError::ExtraCa { .. })));
        assert!(matches!(with_file(""), Err(TlsError::ExtraCa { .. })));
        assert!(matches!(with_file("no certificate"), Err(TlsError::ExtraCa { .. })));
        assert!(matches!(with_file(der), Err(TlsError::Certificate { .. })));
        assert!(matches!(with_file(&(own + der)), Err(TlsError::Certificate { .. })));
    }
}
