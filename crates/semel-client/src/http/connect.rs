//! Connections: plain, or with TLS where the address says https.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::Uri;
use ::http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::Error;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections for the pool.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: Option<TlsConnector>,
}

impl Connector {
    /// For plain connections.
    pub(super) fn plain() -> Self {
        let mut tcp = HttpConnector::new();
        // The scheme is looked at here, and requests are written whole: waiting for more of one only costs time.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        Self { tcp, tls: None }
    }

    /// For secure ones as well. Trusts the system's authorities, and these.
    pub(super) fn secure(extra: &[CertificateDer<'static>]) -> Result<Self, Error> {
        let setup = |error: rustls::Error| Error::Setup(format!("TLS cannot be set up: {error}"));
        let mut roots = RootCertStore::empty();
        // Systems carry the odd certificate that no parser accepts; the others count.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for certificate in extra {
            roots.add(certificate.clone()).map_err(setup)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.map_err(setup)?.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: Some(TlsConnector::from(Arc::new(config))), ..Self::plain() })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let secure = uri.scheme() == Some(&Scheme::HTTPS);
        let name = uri.host().map(|host| host.trim_matches(['[', ']']).to_owned());
        let (connecting, tls) = (self.tcp.call(uri), self.tls.clone());
        Box::pin(async move {
            let stream = connecting.await?;
            match tls {
                Some(tls) if secure => {
                    let name = ServerName::try_from(name.unwrap_or_default())?;
                    let secured = tls.connect(name, stream.into_inner()).await?;
                    Ok(Stream::Secure(TokioIo::new(Box::new(secured))))
                }
                _ => Ok(Stream::Plain(stream)),
            }
        })
    }
}

/// A connection of either kind.
pub(super) enum Stream {
    Plain(TokioIo<TcpStream>),
    Secure(TokioIo<Box<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
