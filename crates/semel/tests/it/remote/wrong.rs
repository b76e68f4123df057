//! What every command does when something is wrong: one line, the right exit code, nothing changed.

use std::net::TcpListener;

use super::{World, assert_failed};
use crate::server::semel;

/// One call of every command that talks to a server.
const ALL: [&[&str]; 27] = [
    &["publish", "q", "1"],
    &["publish", "q", "1", "--key", "k", "--wait", "1"],
    &["job", "job_0000000000001"],
    &["job", "job_0000000000001", "cancel"],
    &["jobs"],
    &["jobs", "--all", "--json"],
    &["key", "q", "k"],
    &["key", "q", "k", "release", "--yes"],
    &["queue", "list"],
    &["queue", "show", "q"],
    &["queue", "set", "q", "maxAttempts=3"],
    &["queue", "pause", "q"],
    &["queue", "rotate-secret", "q"],
    &["queue", "delete", "q", "--yes"],
    &["dead"],
    &["dead", "list", "q"],
    &["dead", "groups", "q"],
    &["dead", "purge", "q", "--yes"],
    &["replay", "job_0000000000001"],
    &["replay", "--queue", "q"],
    &["replay", "status"],
    &["replay", "cancel", "rpl_1"],
    &["schedule", "list"],
    &["schedule", "set", "s", "1", "--queue", "q", "--cron", "@daily"],
    &["schedule", "delete", "s", "--yes"],
    &["api-key", "create", "--scope", "read"],
    &["api-key", "list"],
];

#[test]
fn a_server_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // From now on nobody listens there.
    drop(listener);
    let expected = format!(
        "semel: cannot reach {url}: connection refused; is the server running? start one with `semel dev`, or say \
         where it is with --server\n"
    );
    for args in ALL {
        let ended = super::ended(semel().args(args).args(["--server", &url]), "");
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), expected.as_str()), "{args:?}");
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}

#[test]
fn an_address_that_is_none() {
    for (url, words) in
        [("localhost:7477", "http://"), ("http://a:b@host", "API key"), ("", "not the address")]
    {
        let ended = super::ended(semel().args(["jobs", "--server", url]), "");
        assert_failed(&ended, 2, words, url);
    }
}

#[test]
fn what_is_not_there() {
    let world = World::with_orders();
    for (args, words) in [
        (&["job", "job_0000000000001"][..], "job_not_found"),
        (&["job", "order-1"], "ids look like job_"),
        (&["job", "job_0000000000001", "cancel"], "job_not_found"),
        (&["key", "orders", "k"], "key_not_found"),
        (&["key", "orders", "k", "release", "--yes"], "key_not_found"),
        (&["dead", "list", "none"], "queue_not_found"),
        (&["dead", "groups", "none"], "queue_not_found"),
        (&["dead", "show", "job_0000000000001"], "job_not_found"),
        (&["dead", "purge", "none", "--yes"], "queue_not_found"),
        (&["dead", "purge", "orders", "job_0000000000001", "--yes"], "job_not_found"),
        (&["replay", "job_0000000000001"], "job_not_found"),
        (&["replay", "--queue", "none"], "queue_not_found"),
        (&["replay", "status", "rpl_1"], "record_not_found"),
        (&["replay", "cancel", "rpl_1"], "record_not_found"),
        (&["queue", "delete", "none", "--yes"], "queue_not_found"),
    ] {
        assert_failed(&world.run(args), 5, words, &format!("{args:?}"));
    }
}

#[test]
fn wrong_usage_is_found_before_anything_is_sent() {
    for args in [
        &["publish"][..],
        &["publish", "q"],
        &["publish", "q", "1", "--batch", "f"],
        &["publish", "q", "1", "--key", "k", "--generate-key"],
        &["publish", "q", "1", "--delay", "1s", "--run-at", "2036-01-01T00:00:00Z"],
        &["publish", "q", "1", "--delay", "soon"],
        &["publish", "q", "1", "--meta", "kind"],
        &["job"],
        &["job", "job_1", "destroy"],
        &["jobs", "--limit", "0"],
        &["jobs", "--limit", "3", "--all"],
        &["key", "q"],
        &["key", "q", "k", "--reason", "r"],
        &["queue"],
        &["queue", "set"],
        &["queue", "set", "q", "maxAttempts"],
        &["queue", "set", "q", "--push", "http://x", "--pull"],
        &["dead", "list"],
        &["replay"],
        &["replay", "job_1", "--queue", "q"],
        &["replay", "--queue", "q", "--all"],
        &["replay", "job_1", "--rate", "3"],
        &["replay", "--queue", "q", "--rate", "0"],
        &["replay", "--queue", "q", "--effect", "maybe"],
        &["replay", "status", "--follow"],
        &["schedule"],
        &["api-key", "create"],
        &["api-key", "create", "--scope", "root"],
        &["jobs", "--api-key", "a", "--api-key-file", "b"],
    ] {
        let ended = super::ended(semel().args(args), "");
        assert_eq!(ended.code, Some(2), "{args:?}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("--help") && ended.stdout.is_empty(), "{args:?}: {}", ended.stderr);
    }
}
