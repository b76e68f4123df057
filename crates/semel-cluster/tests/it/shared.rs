//! One cluster, many processes.

use std::{
    convert::Infallible,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use semel_cluster::{Error, Shared, Template, sql_at};

use crate::process::{self, Second, eventually_gone};

const SOON: Duration = Duration::from_secs(1);

#[test]
fn a_database_is_made_and_dropped_with_its_guard() {
    let shared = Shared::get().unwrap();
    let database = shared.database(&Template::EMPTY, |_| Ok::<_, Infallible>(())).unwrap();
    assert_eq!(sql_at(database.url(), &["SELECT current_database()"]).unwrap(), database.name());
    let count = format!("SELECT count(*) FROM pg_database WHERE datname = '{}'", database.name());
    assert_eq!(database.sql(&count).unwrap(), "1");
    drop(database);
    assert_eq!(shared.sql("postgres", &count).unwrap(), "0");
}

#[test]
fn a_template_is_prepared_once_for_each_content() {
    let shared = Shared::get().unwrap();
    let prepared = AtomicU32::new(0);
    let fill = |url: &str| {
        prepared.fetch_add(1, Ordering::SeqCst);
        sql_at(url, &["CREATE TABLE it AS SELECT 7 AS seven"]).map(drop)
    };
    let content = unheard_of();
    let template = Template { name: "once", content: &content };
    for _ in 0..3 {
        let database = shared.database(&template, fill).unwrap();
        assert_eq!(database.sql("SELECT seven FROM it").unwrap(), "7");
        database.sql("DROP TABLE it").unwrap();
    }
    assert_eq!(prepared.load(Ordering::SeqCst), 1);
    let other = format!("{content}, changed");
    drop(shared.database(&Template { content: &other, ..template }, fill).unwrap());
    assert_eq!(prepared.load(Ordering::SeqCst), 2);
}

#[test]
fn a_preparation_that_failed_is_an_error_and_begins_anew() {
    let shared = Shared::get().unwrap();
    let content = unheard_of();
    let template = Template { name: "failing", content: &content };
    let half = |url: &str| {
        sql_at(url, &["CREATE TABLE half ()"]).unwrap();
        Err::<(), _>("no more")
    };
    let error = shared.database(&template, half).unwrap_err();
    assert!(matches!(&error, Error::Template { reason, .. } if reason == "no more"), "{error}");
    let database = shared.database(&template, |_| Ok::<_, Infallible>(())).unwrap();
    assert_eq!(database.sql("SELECT count(*) FROM pg_tables WHERE tablename = 'half'").unwrap(), "0");
}

#[test]
fn a_cluster_is_shared_by_processes_and_ends_after_the_last_even_if_killed() {
    let place = tempfile::tempdir().unwrap();
    let start = || Second::start("shared::second_process", place.path().to_str().unwrap());
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(start);
        (start(), first.join().unwrap())
    });
    assert_eq!(first.word, second.word);
    let directory = first.word.clone();
    assert!(Path::new(&directory).join("data").is_dir());
    first.end();
    second.kill();
    eventually_gone(directory);
    assert!(!place.path().join("home").exists(), "a cluster that is gone must not be found");
}

#[test]
fn a_cluster_is_kept_while_a_process_that_uses_it_lives() {
    let (kept, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let user = Shared::at(kept.path(), SOON).unwrap();
    let directory = Shared::at(left.path(), SOON).unwrap().directory().to_owned();
    // Both were last touched at the same time, and one of them is in use.
    eventually_gone(directory);
    assert_eq!(user.sql("postgres", "SELECT 1").unwrap(), "1");
    let directory = user.directory().to_owned();
    drop(user);
    eventually_gone(directory);
}

#[test]
#[ignore = "the second process of another test"]
fn second_process() {
    let Some(place) = process::argument() else { return };
    let shared = Shared::at(Path::new(&place), SOON).unwrap();
    let database = shared.database(&Template::EMPTY, |_| Ok::<_, Infallible>(())).unwrap();
    process::say(shared.directory().to_str().unwrap());
    drop(database);
}

/// A content of which no earlier run has left a template.
fn unheard_of() -> String {
    format!("{:?}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}
