//! TLS: whom the caller believes (fault 33).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use semel_core::outcome::DeliveryError;
use semel_server::delivery::call::{Answer, Caller, CallerOptions};
use semel_server::delivery::guard::Guard;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use crate::network::{LONG, Names, SHORT, Says, Wire, to};
use crate::worker::{hung_up, serve, worker};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn certificate_for(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).unwrap()
}

/// A worker behind TLS with a certificate of this authority. It counts the handshakes that succeed.
async fn secure_worker(authority: &Authority, params: CertificateParams) -> (SocketAddr, Arc<AtomicUsize>) {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let handshakes = Arc::new(AtomicUsize::new(0));
    let counter = handshakes.clone();
    let address = worker(move |stream, _| {
        let (acceptor, counter) = (acceptor.clone(), counter.clone());
        async move {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                counter.fetch_add(1, Ordering::SeqCst);
                serve(&mut stream).await;
            }
        }
    })
    .await;
    (address, handshakes)
}

/// A caller that trusts this authority besides the system's, on a machine where `worker.example` is at this address.
fn trusting(authority: &Authority, worker: SocketAddr) -> Caller {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority.pem()).unwrap();
    let options = CallerOptions {
        guard: Guard::open_to_loopback(),
        resolver: Names::saying([Says::Addresses(vec![worker])]),
        dial: Arc::<Wire>::default(),
        extra_ca: Some(file.path().to_owned()),
        idle_per_host: 8,
    };
    Caller::new(options).unwrap()
}

async fn call(caller: &Caller) -> Result<Answer, DeliveryError> {
    caller.call(to("https://worker.example/", LONG)).await
}

#[tokio::test]
async fn a_certificate_of_the_operators_own_authority_is_believed_and_the_connection_kept() {
    let authority = authority();
    let (address, handshakes) = secure_worker(&authority, certificate_for("worker.example")).await;
    let caller = trusting(&authority, address);
    for _ in 0..3 {
        assert_eq!(call(&caller).await.unwrap().status, 200);
    }
    assert_eq!(handshakes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_address_can_have_a_certificate_too() {
    let authority = authority();
    let (address, _) = secure_worker(&authority, certificate_for("127.0.0.1")).await;
    let said = trusting(&authority, address).call(to(&format!("https://{address}/"), LONG)).await;
    assert_eq!(said.unwrap().status, 200);
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = authority();
    let mut params = certificate_for("worker.example");
    params.not_before = date_time_ymd(2019, 1, 1);
    params.not_after = date_time_ymd(2020, 1, 1);
    let (address, _) = secure_worker(&authority, params).await;
    let said = call(&trusting(&authority, address)).await;
    assert!(matches!(&said, Err(DeliveryError::Tls(why)) if why.contains("expired")), "{said:?}");
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_or_for_another_name_is_refused() {
    let ours = authority();
    let (unknown, _) = secure_worker(&authority(), certificate_for("worker.example")).await;
    let (other, _) = secure_worker(&ours, certificate_for("other.example")).await;
    for address in [unknown, other] {
        let said = call(&trusting(&ours, address)).await;
        assert!(matches!(said, Err(DeliveryError::Tls(_))), "{said:?}");
    }
}

#[tokio::test]
async fn a_worker_that_does_not_speak_tls_is_an_error_of_tls() {
    let plain = worker(|mut stream, _| async move {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        hung_up(&mut stream).await;
    })
    .await;
    let closing = worker(|_, _| async {}).await;
    for address in [plain, closing] {
        let said = call(&trusting(&authority(), address)).await;
        assert!(matches!(said, Err(DeliveryError::Tls(_))), "{said:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_uses_up_the_deadline() {
    let address = worker(|mut stream, _| async move { hung_up(&mut stream).await }).await;
    let said = trusting(&authority(), address).call(to("https://worker.example/", SHORT)).await;
    assert_eq!(said, Err(DeliveryError::Timeout));
}
