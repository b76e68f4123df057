//! API keys and TLS: who may talk to the server, and whom we believe that it is the server.

use std::fs;

use serde_json::json;

use super::{World, assert_failed, steady};
use crate::run;

fn new_key() -> String {
    run::semel(&["serve", "--new-key"]).stdout.trim().to_owned()
}

/// A server with a key, and its queue `orders`.
fn keyed(change: impl FnOnce(&mut std::process::Command)) -> World {
    let admin = new_key();
    let mut world = World::with(|command| {
        command.env("SEMEL_ADMIN_KEY", &admin);
        change(command);
    });
    world.use_key(&admin);
    world
}

#[test]
fn a_secret_is_shown_once_and_on_stdout_only() {
    let mut world = keyed(|_| {});
    world.api("PUT", "/v1/queues/orders", &json!({}));
    let create = [
        "api-key",
        "create",
        "--scope",
        "read,publish",
        "--queue",
        "ord*",
        "--label",
        "shop",
        "--expires-in",
        "1h",
    ];
    let made = world.run(&create);
    let secret = made.stdout.trim().to_owned();
    assert_eq!((made.code, made.stdout.lines().count()), (Some(0), 1), "{}", made.stderr);
    assert!(secret.starts_with("sml_") && !made.stderr.contains(&secret), "{}", made.stderr);
    assert_eq!(steady(&made.stderr), "KEY may read, publish in ord*. Its secret, shown this once:");
    let listed = world.good(&["api-key", "list"]);
    assert!(!listed.contains(&secret), "{listed}");
    let line = listed.lines().find(|line| line.contains("shop")).expect("it is listed");
    assert_eq!(steady(line), "KEY shop read,publish ord* TIME never");
    let id = line.split_whitespace().next().unwrap().to_owned();

    let rotated = world.run(&["api-key", "rotate", &id]);
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    assert!(rotated.stderr.contains(&format!("semel api-key delete {id}")), "{}", rotated.stderr);
    assert_failed(&world.run(&["api-key", "delete", &id]), 2, "add --yes", "nobody can be asked");
    world.good(&["api-key", "delete", &id, "--yes"]);
    assert_failed(&world.run(&["api-key", "delete", &id, "--yes"]), 5, "record_not_found", "twice");
    assert_failed(&world.run(&["api-key", "rotate", &id]), 5, "there is no API key", "it is gone");
    let refused = world.run(&["api-key", "create", "--scope", "read", "--expires-at", "soon"]);
    assert_failed(&refused, 6, "expiresAt", "no time");
    world.use_key(&secret);
    assert_failed(&world.run(&["jobs"]), 4, "not known here", "the old one");
    world.use_key(rotated.stdout.trim());
    world.good(&["publish", "orders", "1"]);
}

#[test]
fn a_key_that_may_not_do_it_changes_nothing() {
    let mut world = keyed(|_| {});
    world.api("PUT", "/v1/queues/orders", &json!({}));
    let id = world.publish("k", &json!(1));
    let reader = world.good(&["api-key", "create", "--scope", "read"]).trim().to_owned();
    let before = world.good_json(&["queue", "show", "orders"]);
    let admin = world.key.clone().unwrap();
    world.use_key(&reader);
    world.good(&["job", &id]);
    for args in [
        &["publish", "orders", "1"][..],
        &["job", &id, "cancel"],
        &["key", "orders", "k", "release", "--yes"],
        &["queue", "set", "orders", "maxAttempts=1"],
        &["queue", "pause", "orders"],
        &["queue", "delete", "orders", "--yes"],
        &["queue", "rotate-secret", "orders"],
        &["dead", "purge", "orders", "--yes"],
        &["replay", "--queue", "orders"],
        &["replay", &id],
        &["schedule", "set", "s", "1", "--queue", "orders", "--cron", "@daily"],
        &["api-key", "list"],
        &["api-key", "create", "--scope", "admin"],
    ] {
        assert_failed(&world.run(args), 4, "forbidden", &format!("{args:?}"));
    }
    for (key, words) in [("sml_nobody", "not known here"), ("", "set SEMEL_API_KEY")] {
        world.use_key(key);
        assert_failed(&world.run(&["jobs"]), 4, words, "a stranger");
    }
    // A flag counts more than a variable, a file as well.
    world.good(&["jobs", "--api-key", &admin]);
    let file = world.file("admin.key", &format!("{admin}\n"));
    assert_eq!(world.good_json(&["queue", "show", "orders", "--api-key-file", &file]), before);
    let empty = world.file("empty.key", "\n");
    assert_failed(&world.run(&["jobs", "--api-key-file", &empty]), 2, "is empty", "an empty file");
    assert_failed(
        &world.run(&["jobs", "--api-key-file", "/nowhere"]),
        2,
        "cannot read --api-key-file",
        "no file",
    );
    assert_failed(&world.run(&["jobs", "--api-key", "sml_1\n2"]), 2, "no key has", "a line break");
}

#[test]
fn a_private_authority_is_trusted_when_it_is_named() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    fs::write(&cert, made.cert.pem()).expect("it is written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("it is written");
    let mut world = keyed(|command| {
        command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
    });
    let port = world.server.address.port();
    let cert = cert.to_str().expect("a path is text");
    world.go_to(format!("https://localhost:{port}"));
    let trusting = |args: &[&'static str]| {
        [args, &["--ca-cert", cert]].concat().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    world.good(&trusting(&["queue", "set", "orders"]));
    world.good(&trusting(&["publish", "orders", "1", "--key", "k", "--json"]));
    assert!(
        steady(&world.good(&trusting(&["key", "orders", "k"])))
            .starts_with("k in orders: no effect was reported")
    );
    assert_failed(&world.run(&["jobs"]), 3, "name that with --ca-cert FILE", "not trusted");
    world.go_to(format!("https://127.0.0.1:{port}"));
    assert_failed(&world.run(&trusting(&["jobs"])), 3, "does not fit", "another name");
    world.go_to(format!("http://localhost:{port}"));
    assert_failed(&world.run(&["jobs"]), 3, "https:// instead of http://", "without TLS");
    assert_failed(&world.run(&trusting(&["jobs"])), 2, "https://", "an authority for nothing");
    world.go_to(format!("https://localhost:{port}"));
    let no_pem = world.file("no.pem", "hello");
    assert_failed(&world.run(&["jobs", "--ca-cert", &no_pem]), 2, "no certificate", "not PEM");
    let plain = World::new();
    world.go_to(format!("https://{}", plain.server.address));
    assert_failed(&world.run(&["jobs"]), 3, "http:// instead of https://", "no TLS there");
}
