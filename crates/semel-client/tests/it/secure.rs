//! Over TLS.

use std::fs;
use std::time::Duration;

use semel_client::Publish;
use semel_client::http::{Client, Error, Failure};
use semel_server::net::Tls;
use semel_server::service::Options;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_trusted_if_its_authority_was_given() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = Tls::from_pem_files(&cert, &key).unwrap();
    let world = World::with(Options { dev: true, ..Options::default() }, Some(tls)).await;
    let url = format!("https://localhost:{}", world.address.port());
    let wish = Publish::new("q", &1).unwrap();
    let trusting = Client::builder(&url).authorities(made.cert.pem()).build().unwrap();
    assert!(!trusting.publish(&wish).await.unwrap().deduplicated);
    let strange = Client::builder(&url).deadline(Duration::from_millis(200)).build().unwrap();
    let error = strange.publish(&wish).await.unwrap_err();
    let Error::Deadline { last, maybe_done: false, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(last.as_ref(), Failure::Unreachable(words) if words.contains("certificate")), "{last}");
    world.end().await;
}

#[test]
fn what_cannot_work_is_told_when_it_is_set_up() {
    for (built, expected) in [
        (Client::new("semel.internal"), "http://"),
        (Client::builder("http://x").api_key("sml_1\n").build(), "line break"),
        (Client::builder("https://x").authorities("-----BEGIN CERTIFICATE-----\n!").build(), "PEM"),
    ] {
        let error = built.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
