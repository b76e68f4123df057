//! `semel config`, and what is wrong with a configuration.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::odds::unprivileged;
use crate::run::{self, Ended, ended};
use crate::server::{Server, semel};

struct Fixture(TempDir);

impl Fixture {
    fn new(settings: &str) -> Self {
        let fixture = Self(tempfile::tempdir().expect("a directory"));
        fs::write(fixture.file(), settings).expect("a file");
        fixture
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("semel.toml")
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    /// `semel config check FILE ARGS…` with these variables.
    fn check(&self, args: &[&str], variables: &[(&str, &str)]) -> Ended {
        let mut command = semel();
        ended(command.args(["config", "check"]).arg(self.file()).args(args).envs(variables.iter().copied()))
    }
}

#[test]
fn what_is_printed_is_good_and_can_be_served() {
    let printed = run::semel(&["config", "print"]);
    assert_eq!(printed.code, Some(0));
    let fixture = Fixture::new(&printed.stdout);
    let checked = fixture.check(&["--json"], &[]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    assert_eq!(checked.json()["good"], true);
    let server = Server::serve(fixture.store().as_os_str(), |command| {
        command.arg("--config").arg(fixture.file()).args(["--set", "metrics=false"]);
    });
    assert_eq!(server.ask("GET", "/healthz", None, "").0, 200);
    assert_eq!(server.ask("GET", "/metrics", None, "").0, 404);
}

#[test]
fn a_check_shows_what_comes_from_where_and_no_secret() {
    let fixture = Fixture::new("data = \"/file\"\n[limits]\nbody = \"2MiB\"\n");
    let key = run::semel(&["serve", "--new-key"]).stdout.trim().to_owned();
    let url = "postgres://semel:hunter2@db/semel";
    let variables =
        [("SEMEL_LIMITS_BODY", "3MiB"), ("SEMEL_ADMIN_KEY", key.as_str()), ("SEMEL_STORE_URL", url)];
    let checked = fixture.check(&["--listen", "127.0.0.1:9", "--set", "metrics=false"], &variables);
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    let line = |key: &str| {
        let found = checked.stdout.lines().find(|line| line.split_whitespace().next() == Some(key));
        found.unwrap_or_else(|| panic!("{key}: {}", checked.stdout)).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(line("listen"), ["listen", "127.0.0.1:9", "--listen"]);
    assert_eq!(line("data")[1..], ["/file", fixture.file().to_str().expect("UTF-8")]);
    assert_eq!(line("limits.body"), ["limits.body", "3MiB", "SEMEL_LIMITS_BODY"]);
    assert_eq!(line("metrics"), ["metrics", "false", "--set", "metrics"]);
    assert_eq!(line("store.url"), ["store.url", "(hidden)", "SEMEL_STORE_URL"]);
    assert_eq!(line("SEMEL_ADMIN_KEY")[1], "(hidden)");
    assert_eq!(line("shutdown.grace"), ["shutdown.grace", "25s", "default"]);
    assert!(!checked.stdout.contains("hunter2") && !checked.stdout.contains(&key), "{}", checked.stdout);
    assert!(!fixture.store().exists(), "nothing is made");
}

#[test]
fn keys_that_are_not_known_are_refused_wherever_they_are_with_the_nearest_one() {
    let fixture = Fixture::new("lisen = \"127.0.0.1:1\"\n");
    let checked = fixture.check(&["--set", "limits.bodie=2MiB"], &[("SEMEL_LOG_LEVL", "info")]);
    assert_eq!(checked.code, Some(1), "{}{}", checked.stdout, checked.stderr);
    for (given, meant) in
        [("lisen", "listen"), ("--set limits.bodie", "limits.body"), ("SEMEL_LOG_LEVL", "SEMEL_LOG_LEVEL")]
    {
        let line = checked.stdout.lines().find(|line| line.contains(&format!("- {given}: ")));
        let line = line.unwrap_or_else(|| panic!("{given}: {}", checked.stdout));
        assert!(line.contains(&format!("did you mean {meant}?")), "{line}");
    }
    let json = fixture.check(&["--json"], &[]);
    assert_eq!((json.code, &json.json()["problems"][0]["field"]), (Some(1), &"lisen".into()));
    // A server does not start with it, and makes nothing.
    let mut serve = semel();
    let refused =
        ended(serve.arg("serve").arg("--config").arg(fixture.file()).arg("--data").arg(fixture.store()));
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(2), 1), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("did you mean listen?") && !fixture.store().exists(),
        "{}",
        refused.stderr
    );
}

#[test]
fn certificates_are_read_by_a_check() {
    let fixture = Fixture::new("[tls]\ncert = \"/nowhere/c.pem\"\nkey = \"/nowhere/k.pem\"\n");
    let checked = fixture.check(&[], &[]);
    assert_eq!(checked.code, Some(1), "{}", checked.stderr);
    assert!(
        checked.stdout.contains("- tls: ") && checked.stdout.contains("/nowhere/c.pem"),
        "{}",
        checked.stdout
    );
}

#[test]
fn a_file_that_cannot_be_read_is_told_in_one_line() {
    let fixture = Fixture::new("listen = \n");
    let syntax = fixture.check(&[], &[]);
    assert_eq!((syntax.code, syntax.stderr.lines().count()), (Some(2), 1), "{}", syntax.stderr);
    assert!(syntax.stderr.contains("is not TOML: line 1: "), "{}", syntax.stderr);
    let absent = run::semel(&["config", "check", "/nowhere/semel.toml"]);
    assert_eq!((absent.code, absent.stderr.lines().count()), (Some(2), 1), "{}", absent.stderr);
    fs::set_permissions(fixture.file(), fs::Permissions::from_mode(0o000)).expect("a mode");
    let Some(mut command) = unprivileged() else { return };
    let closed =
        ended(command.args(["serve", "--config"]).arg(fixture.file()).arg("--data").arg(fixture.store()));
    assert_eq!((closed.code, closed.stderr.lines().count()), (Some(2), 1), "{}", closed.stderr);
    assert!(
        closed.stderr.contains("Permission denied") && closed.stderr.contains("semel.toml"),
        "{}",
        closed.stderr
    );
    assert!(!fixture.store().exists(), "nothing is made");
}

#[test]
fn a_disk_that_is_full_is_told_when_a_result_is_written_to_it() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let ran = semel().args(["config", "print"]).stdout(full).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("No space left"), "{said}");
}
