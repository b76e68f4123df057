//! TLS: a certificate chain and its key, from PEM files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// What HTTP/2 is called in a handshake.
pub(super) const H2: &[u8] = b"h2";

/// A certificate and its key, ready to serve. HTTP/2 and HTTP/1.1 are offered, in this order.
#[derive(Clone)]
pub struct Tls {
    pub(super) acceptor: TlsAcceptor,
}

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, unreadable, or not what it should be.
    #[error("cannot read {what} from {}: {source}; it must be a PEM file", path.display())]
    Pem {
        /// What should be in the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// The files can be read, and do not go together.
    #[error("the certificate {} cannot be served with the key {}: {source}", cert.display(), key.display())]
    Unfit {
        /// The file of the certificate chain.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
}

impl Tls {
    /// Reads a certificate chain (the server's own first) and its private key.
    pub fn from_pem_files(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let wrong = |what, path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Pem { what, path, source }
        };
        let chain = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(wrong("a certificate", cert))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(wrong("a private key", key))?;
        Self::from_parts(chain, secret).map_err(|source| TlsError::Unfit {
            cert: cert.to_owned(),
            key: key.to_owned(),
            source,
        })
    }

    fn from_parts(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
