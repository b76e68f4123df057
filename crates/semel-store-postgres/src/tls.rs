//! Encryption of connections, by the words that PostgreSQL's own clients use.
//!
//! | `sslmode` | what is promised |
//! |---|---|
//! | `disable` | nothing |
//! | `prefer` (default) | encrypted if the server can; whoever listens in cannot read, whoever stands between can |
//! | `require` | encrypted, or no connection |
//! | `verify-ca`, `verify-full` | and the server is the one that was named, by `sslrootcert` or the system's certificates |

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How far the server's certificate is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Any certificate will do.
    Anyone,
    /// It must come from one of the system's authorities.
    System,
    /// It must come from an authority in this file.
    File(String),
}

/// What makes encrypted connections.
pub(crate) fn connector(trust: &Trust) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let config = match trust {
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
            .with_no_client_auth(),
        Trust::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
        Trust::File(path) => builder.with_root_certificates(roots_in(path)?).with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(
            "this system has no certificates to verify the server's with: name a file by sslrootcert".into(),
        );
    }
    Ok(roots)
}

fn roots_in(path: &str) -> Result<RootCertStore, String> {
    let wrong =
        |e: &dyn std::fmt::Display| format!("cannot read certificates from {path} (sslrootcert): {e}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| wrong(&e))? {
        roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
    }
    if roots.is_empty() { Err(wrong(&"there are none in it")) } else { Ok(roots) }
}

/// Takes any certificate, as `sslmode=require` does everywhere: the connection is encrypted, and that is all. The signatures
/// of the handshake are checked all the same.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
