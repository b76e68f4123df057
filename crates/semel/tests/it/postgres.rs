//! `semel serve --store`, `semel migrate` and `semel nodes`, on real databases.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use semel_cluster::{Cluster, Database, Shared, Template};
use semel_store::StoreError;
use serde_json::Value;

use crate::run;
use crate::server::{Server, semel};

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

fn database() -> Database<'static> {
    let shared = Shared::get().expect("a PostgreSQL cluster starts");
    shared.database(&Template::EMPTY, |_| Ok::<_, StoreError>(())).expect("a database is made")
}

/// Starts a node on a free port.
fn node(url: &str, args: &[&str]) -> Server {
    let mut command = semel();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", url]).args(args);
    Server::start(&mut command, "listening")
}

fn nodes(url: &str) -> Vec<Value> {
    let listed = run::semel(&["nodes", "--store", url, "--json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    listed.json()["nodes"].as_array().expect("a list").clone()
}

/// Looks until there is something to see.
fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "what the test waits for does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const PULL: &str = r#"{"delivery":{"type":"pull"}}"#;
const PUBLISH: &str = r#"{"payload":{"n":1},"idempotencyKey":"k-1"}"#;

/// What the doctor sees in a database, and its exit code.
fn examine(url: &str) -> (Option<i32>, Value) {
    let seen = run::semel(&["doctor", "--store", url, "--json"]);
    (seen.code, seen.json()["examination"].clone())
}

/// The shared cluster of tests waits for no disk, which a doctor has to say.
#[test]
fn a_doctor_sees_tables_indexes_and_settings_and_says_what_is_wrong() {
    let database = database();
    let empty = run::semel(&["doctor", "--store", database.url()]);
    assert_eq!(empty.code, Some(2));
    assert!(empty.stderr.contains("semel migrate"), "{}", empty.stderr);
    let a = node(database.url(), &[]);
    assert!(a.ask("PUT", "/v1/queues/orders", None, PULL).0 < 300);
    assert_eq!(a.ask("POST", "/v1/queues/orders/jobs", None, PUBLISH).0, 201);
    let (code, seen) = examine(database.url());
    assert_eq!(code, Some(1), "{seen}");
    let named = |list: &str, name: &str| {
        let all = seen[list].as_array().expect("a list");
        all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {seen}")).clone()
    };
    assert_eq!(named("tables", "key")["partitions"], 8);
    assert!(named("tables", "job")["bytes"].as_i64() > Some(0));
    assert_eq!(named("indexes", "live_ready")["valid"], true);
    assert!(seen["condition"]["daysAhead"].as_i64() >= Some(6), "{}", seen["condition"]);
    let findings = seen["findings"].as_array().expect("a list");
    assert_eq!(findings[0]["what"], "fsync is off");
    database
        .sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'semel.live_ready'::regclass")
        .unwrap();
    let (_, seen) = examine(database.url());
    assert!(
        seen["findings"].to_string().contains("the index semel.live_ready of semel.live is not valid"),
        "{seen}"
    );
    let shown = run::semel(&["doctor", "--store", database.url()]);
    assert!(shown.stdout.contains("danger: fsync is off"), "{}", shown.stdout);
}

#[test]
fn two_nodes_share_a_database_and_are_listed() {
    let database = database();
    let a = node(database.url(), &["--set", "node.name=one", "--set", "node.address=https://one.internal"]);
    assert!(a.ask("PUT", "/v1/queues/orders", None, PULL).0 < 300);
    let b = node(database.url(), &["--set", "node.name=two"]);
    let (status, first) = a.ask("POST", "/v1/queues/orders/jobs", None, PUBLISH);
    assert_eq!(status, 201, "{first}");
    let (status, second) = b.ask("POST", "/v1/queues/orders/jobs", None, PUBLISH);
    assert_eq!((status, &second["id"]), (200, &first["id"]), "{second}");
    let (status, leased) = b.ask("POST", "/v1/queues/orders/lease", None, r#"{"max":5}"#);
    assert_eq!((status, &leased["jobs"][0]["id"]), (200, &first["id"]), "{leased}");

    let listed = nodes(database.url());
    let names: Vec<_> = listed.iter().map(|node| (&node["name"], &node["address"])).collect();
    assert_eq!(names[0], (&"one".into(), &"https://one.internal".into()));
    assert_eq!(names[1].0, "two");
    assert!(
        names[1].1.as_str().is_some_and(|address| address.starts_with("http://127.0.0.1:")),
        "{listed:?}"
    );
    let (status, shown) = b.ask("GET", "/v1/nodes", None, "");
    assert_eq!(status, 200);
    let this: Vec<_> = shown["nodes"].as_array().expect("a list").iter().map(|node| &node["this"]).collect();
    assert_eq!(this, [&Value::from(false), &Value::from(true)]);
    let table = run::semel(&["nodes", "--store", database.url()]);
    assert!(
        table.stdout.contains("one") && table.stdout.contains("https://one.internal"),
        "{}",
        table.stdout
    );

    assert_eq!(a.stop().code, Some(0));
    let left = nodes(database.url());
    assert_eq!(left.len(), 1, "whoever ends in order leaves the list: {left:?}");
    let roles = |nodes: &[Value]| nodes[0]["roles"].as_array().is_some_and(|roles| roles.len() == 4);
    eventually(|| roles(&nodes(database.url())).then_some(()));
    assert_eq!(b.stop().code, Some(0));
    assert_eq!(nodes(database.url()), Vec::<Value>::new());
}

#[test]
fn a_schema_is_printed_applied_once_and_asked_for() {
    let database = database();
    let refused = run::semel(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--store",
        database.url(),
        "--set",
        "store.migrate=false",
    ]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("semel migrate"), "{}", refused.stderr);
    let no_nodes = run::semel(&["nodes", "--store", database.url()]);
    assert_eq!(no_nodes.code, Some(2));
    assert!(no_nodes.stderr.contains("semel migrate"), "{}", no_nodes.stderr);

    let printed = run::semel(&["migrate", "--store", database.url(), "--dry-run"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert!(printed.stdout.contains("-- migration 1: start\nBEGIN;"), "{}", printed.stdout);
    assert!(printed.stdout.contains("CREATE TABLE semel.role"), "{}", printed.stdout);
    assert_eq!(database.sql("SELECT to_regnamespace('semel') IS NULL").unwrap(), "t", "nothing was changed");

    let applied = run::semel(&["migrate", "--store", database.url()]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    assert!(applied.stdout.contains("migration 1 (start) was applied"), "{}", applied.stdout);
    let again = run::semel(&["migrate", "--store", database.url()]);
    assert!(!again.stdout.contains("applied") && again.stdout.contains("up to date"), "{}", again.stdout);
    let nothing = run::semel(&["migrate", "--store", database.url(), "--dry-run"]);
    assert_eq!(nothing.stdout, "-- the schema is up to date\n");
    let server = node(database.url(), &["--set", "store.migrate=false"]);
    assert_eq!(server.stop().code, Some(0));
}

/// What is printed is what is applied: by hand it makes a schema that a server takes.
#[test]
fn the_printed_schema_can_be_applied_by_hand() {
    let database = database();
    let printed = run::semel(&["migrate", "--store", database.url(), "--dry-run"]);
    database.sql(&printed.stdout).unwrap();
    let nothing = run::semel(&["migrate", "--store", database.url(), "--dry-run"]);
    assert_eq!(nothing.stdout, "-- the schema is up to date\n");
    let server = node(database.url(), &["--set", "store.migrate=false"]);
    assert!(server.ask("PUT", "/v1/queues/orders", None, PULL).0 < 300);
}

#[test]
fn a_password_is_never_shown() {
    let cluster = Cluster::start().expect("a PostgreSQL cluster starts");
    let url = cluster.url("postgres");
    let password =
        url.split(':').nth(2).and_then(|rest| rest.split('@').next()).expect("a password").to_owned();
    let mut command = semel();
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "trace"]).env("SEMEL_STORE", &url);
    let server = Server::start(&mut command, "listening");
    assert!(server.ask("PUT", "/v1/queues/orders", None, PULL).0 < 300);
    assert_eq!(server.ask("GET", "/v1/nodes", None, "").0, 200);
    let ended = server.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("127.0.0.1/postgres"), "it says where its jobs are: {}", ended.stderr);
    assert!(!(ended.stderr + &ended.stdout).contains(&password), "the password is in the log");

    let wrong = url.replace(&password, "hunter2");
    for args in [vec!["serve"], vec!["migrate"], vec!["nodes"]] {
        let mut command = semel();
        let ran = command.args(&args).env("SEMEL_STORE", &wrong).output().expect("it runs");
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
        assert!(said.contains("password") && !said.contains("hunter2"), "{args:?}: {said}");
    }
    let help = semel().args(["serve", "--help"]).env("SEMEL_STORE", &url).output().expect("it runs");
    assert!(!String::from_utf8_lossy(&help.stdout).contains(&password));
    let no_url = run::semel(&["serve", "--set", "store.url=hunter2"]);
    assert!(no_url.stderr.contains("store.url") && !no_url.stderr.contains("hunter2\n"), "{}", no_url.stderr);
}

#[test]
fn a_server_is_not_ready_while_its_database_is_away_and_recovers() {
    let mut cluster = Cluster::start().expect("a PostgreSQL cluster starts");
    let server = node(&cluster.url("postgres"), &[]);
    assert_eq!(server.ask("GET", "/readyz", None, "").0, 200);
    cluster.stop().unwrap();
    let start = Instant::now();
    let (status, problem) = server.ask("GET", "/readyz", None, "");
    assert_eq!((status, &problem["code"]), (503, &"store_busy".into()), "{problem}");
    assert!(start.elapsed() < Duration::from_secs(9), "a probe is not kept waiting: {:?}", start.elapsed());
    assert_eq!(server.ask("GET", "/healthz", None, "").0, 200, "a restart would not help");
    cluster.restart().unwrap();
    eventually(|| (server.ask("GET", "/readyz", None, "").0 == 200).then_some(()));
    assert!(server.ask("PUT", "/v1/queues/orders", None, PULL).0 < 300);
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_node_that_is_killed_is_lost_and_its_work_goes_on() {
    let database = database();
    let (a, b) = (node(database.url(), &[]), node(database.url(), &[]));
    assert!(a.ask("PUT", "/v1/queues/orders", None, PULL).0 < 300);
    a.signal(Signal::KILL);
    let (status, made) = b.ask("POST", "/v1/queues/orders/jobs", None, PUBLISH);
    assert_eq!(status, 201, "{made}");
    let listed = eventually(|| {
        let listed = nodes(database.url());
        let taken = listed[1]["roles"].as_array().is_some_and(|roles| roles.len() == 4);
        (taken && listed[0]["lost"] == true).then_some(listed)
    });
    assert_eq!(listed.len(), 2, "it is shown for a while: {listed:?}");
    assert_eq!(b.stop().code, Some(0));
}
