//! TLS: both kinds of HTTP by the name the client asks for, and handshakes that never end.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use semel_server::net::{Tls, TlsError};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http2::{ask, hello, http2};
use crate::kit::{Client, HELLO, connect, on_pipes, on_tcp, within};

/// A certificate for `localhost`, in files.
struct Certificate {
    dir: TempDir,
    der: CertificateDer<'static>,
}

impl Certificate {
    fn new() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let made = Self { dir: tempfile::tempdir().expect("a directory"), der: cert.der().clone() };
        fs::write(made.path("cert.pem"), cert.pem()).expect("a file");
        fs::write(made.path("key.pem"), signing_key.serialize_pem()).expect("a file");
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tls(&self) -> Tls {
        Tls::from_pem_files(&self.path("cert.pem"), &self.path("key.pem")).expect("files that go together")
    }

    async fn connect(&self, stream: TcpStream, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await.expect("a handshake")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_kinds_of_http_are_spoken_over_tls() {
    let certificate = Certificate::new();
    let (address, server) = on_tcp(|server| server.tls = Some(certificate.tls())).await;
    for protocols in [&[b"http/1.1".as_slice()] as &[&[u8]], &[]] {
        let stream = certificate.connect(TcpStream::connect(address).await.unwrap(), protocols).await;
        let mut client = Client::new(stream);
        assert_eq!(client.ask(HELLO).await.body, "ok", "{protocols:?}");
        assert_eq!(client.ask(HELLO).await.body, "ok", "{protocols:?}");
    }
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = certificate.connect(stream, &[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let mut client = http2(stream).await;
    assert_eq!(ask(&mut client, hello()).await, (200, "ok".into()));
    drop(client);
    server.stop();
    assert_eq!(server.ended().await.cut, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_speaks_no_tls_gets_nowhere_and_the_server_goes_on() {
    let certificate = Certificate::new();
    let (address, _server) = on_tcp(|server| server.tls = Some(certificate.tls())).await;
    let mut plain = connect(address).await;
    plain.send(HELLO).await;
    let rest = plain.rest().await;
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
    let stream = certificate.connect(TcpStream::connect(address).await.unwrap(), &[]).await;
    assert_eq!(Client::new(stream).ask(HELLO).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_is_ended_at_the_limit() {
    let certificate = Certificate::new();
    let (pipes, server) = on_pipes(|server| server.tls = Some(certificate.tls()));
    for first in [b"".as_slice(), b"\x16\x03\x01\x02\x00\x01"] {
        let start = Instant::now();
        let mut client = pipes.connect();
        client.send(first).await;
        assert!(client.is_closed().await);
        assert_eq!(start.elapsed().as_secs(), 10);
    }
    let _stalled = pipes.connect();
    tokio::task::yield_now().await;
    let start = Instant::now();
    server.stop();
    assert_eq!(server.ended().await.cut, 0);
    assert_eq!(start.elapsed().as_secs(), 0, "nobody waits for a handshake when the server stops");
}

#[test]
fn files_that_do_not_do_are_named() {
    let (one, other) = (Certificate::new(), Certificate::new());
    let absent = Tls::from_pem_files(&one.path("absent.pem"), &one.path("key.pem")).unwrap_err().to_string();
    assert!(absent.contains("absent.pem") && absent.contains("PEM"), "{absent}");
    let swapped = Tls::from_pem_files(&one.path("cert.pem"), &one.path("cert.pem")).unwrap_err();
    assert!(matches!(swapped, TlsError::Pem { what: "a private key", .. }), "{swapped}");
    let mixed = Tls::from_pem_files(&one.path("cert.pem"), &other.path("key.pem")).unwrap_err();
    assert!(matches!(mixed, TlsError::Unfit { .. }), "{mixed}");
    fs::write(one.path("empty.pem"), "").unwrap();
    assert!(Tls::from_pem_files(&one.path("empty.pem"), &one.path("key.pem")).is_err());
}
