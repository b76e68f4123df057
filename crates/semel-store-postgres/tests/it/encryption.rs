//! Encrypted connections, by the words of `sslmode`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use semel_cluster::Cluster;
use semel_store_postgres::pending;

use crate::harness::runtime;

/// A cluster that offers encryption, with a certificate for its address from an authority of its own; and that
/// authority's certificate.
fn encrypted_cluster() -> (Cluster, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let mut cluster = Cluster::start().unwrap();
    give(&cluster.data(), "server.crt", &certificate.pem());
    give(&cluster.data(), "server.key", &key.serialize_pem());
    cluster.set("ssl", "on");
    cluster.restart().unwrap();
    (cluster, authority.pem())
}

/// Puts a file beside the data that only the server may read.
fn give(data: &Path, name: &str, content: &str) {
    let (path, owner) = (data.join(name), fs::metadata(data).unwrap());
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

#[test]
fn a_server_is_believed_as_far_as_the_address_says() {
    let (cluster, authority) = encrypted_cluster();
    let trusted = tempfile::NamedTempFile::new().unwrap();
    fs::write(trusted.path(), authority).unwrap();
    let roots = trusted.path().display();
    let ask = |more: &str| {
        let url = format!("{}?{more}", cluster.url("postgres"));
        runtime().block_on(pending(&url)).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(ask("sslmode=disable"), Ok(()));
    assert_eq!(ask("sslmode=prefer"), Ok(()));
    assert_eq!(ask("sslmode=require"), Ok(()), "encrypted, whoever it is");
    assert_eq!(ask(&format!("sslmode=verify-full&sslrootcert={roots}")), Ok(()));
    let stranger = ask("sslmode=verify-full").unwrap_err();
    assert!(stranger.contains("certificate") && stranger.contains("check the address"), "{stranger}");
    let nothing = ask("sslmode=verify-full&sslrootcert=/nowhere.pem").unwrap_err();
    assert!(nothing.contains("/nowhere.pem (sslrootcert)"), "{nothing}");
}

#[test]
fn a_server_without_encryption_is_refused_where_it_is_required() {
    let cluster = Cluster::start().unwrap();
    let url = format!("{}?sslmode=require", cluster.url("postgres"));
    let refused = runtime().block_on(pending(&url)).unwrap_err().to_string();
    assert!(refused.contains("TLS"), "{refused}");
}
