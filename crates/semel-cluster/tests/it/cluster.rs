//! A cluster of one's own, and what can be done to it.

use std::{net::TcpStream, os::unix::fs::PermissionsExt, thread};

use semel_cluster::{Cluster, sql_at};

use crate::process::{self, Second, eventually, eventually_gone};

#[test]
fn what_was_committed_survives_a_kill_and_a_stop() {
    let mut cluster = Cluster::start().unwrap();
    assert_eq!(cluster.sql("postgres", "SHOW fsync").unwrap(), "on");
    let url = cluster.url("postgres");
    sql_at(&url, &["CREATE TABLE it (n int)", "INSERT INTO it VALUES (1)"]).unwrap();
    cluster.kill().unwrap();
    sql_at(&url, &["SELECT 1"]).unwrap_err();
    cluster.restart().unwrap();
    sql_at(&url, &["INSERT INTO it VALUES (2)"]).unwrap();
    cluster.stop().unwrap();
    sql_at(&url, &["SELECT 1"]).unwrap_err();
    cluster.restart().unwrap();
    assert_eq!(sql_at(&url, &["SELECT sum(n) FROM it"]).unwrap(), "3");
}

#[test]
fn settings_are_those_that_were_asked_for_now_and_after_a_restart() {
    let mut cluster = Cluster::with(&[("max_connections", "7")]).unwrap();
    assert_eq!(cluster.sql("postgres", "SHOW max_connections").unwrap(), "7");
    cluster.set("max_connections", "8");
    cluster.restart().unwrap();
    assert_eq!(cluster.sql("postgres", "SHOW max_connections").unwrap(), "8");
}

#[test]
fn other_users_of_the_machine_do_not_get_in() {
    let cluster = Cluster::start().unwrap();
    let mode = std::fs::metadata(cluster.directory()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "others reach the socket, which asks for no password");
    let stranger = format!("postgres://postgres:guess@{}/postgres", cluster.address());
    let refusal = sql_at(&stranger, &["SELECT 1"]).unwrap_err().to_string();
    assert!(refusal.contains("password authentication failed"), "{refusal}");
    assert_eq!(sql_at(&cluster.socket_url("postgres"), &["SELECT 1"]).unwrap(), "1");
}

#[test]
fn backends_are_terminated_and_the_next_connection_works() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.url("postgres");
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| sql_at(&url, &["SELECT pg_sleep(600)"]));
        eventually("a query that sleeps", || sleeping(&cluster));
        assert_eq!(cluster.terminate_backends().unwrap(), 1);
        let error = sleeper.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("57P01"), "{error}");
    });
    assert_eq!(sql_at(&url, &["SELECT 1"]).unwrap(), "1");
}

#[test]
fn a_frozen_cluster_answers_once_it_is_thawed() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.url("postgres");
    cluster.freeze().unwrap();
    thread::scope(|scope| {
        let asking = scope.spawn(|| sql_at(&url, &["SELECT 1"]));
        // The system accepts for the postmaster; it is frozen if nobody takes the connection over.
        eventually("a connection", || established(cluster.address().port()));
        assert!(!asking.is_finished());
        cluster.thaw().unwrap();
        assert_eq!(asking.join().unwrap().unwrap(), "1");
    });
}

#[test]
fn nothing_is_left_of_a_cluster_whose_guard_is_dropped() {
    let mut cluster = Cluster::start().unwrap();
    let (directory, address) = (cluster.directory().to_owned(), cluster.address());
    drop(cluster);
    assert!(!directory.exists());
    TcpStream::connect(address).unwrap_err();

    cluster = Cluster::start().unwrap();
    let memory = memory_of(&cluster);
    assert!(memory_exists(&memory), "{memory} is not the number of a piece of memory");
    cluster.kill().unwrap();
    drop(cluster);
    assert!(!memory_exists(&memory), "the memory of a killed server stayed behind");
}

#[test]
fn nothing_is_left_of_a_cluster_whose_process_is_killed() {
    let second = Second::start("cluster::second_process", "");
    let (address, directory) = second.word.split_once(' ').unwrap();
    TcpStream::connect(address).unwrap();
    let (address, directory) = (address.to_owned(), directory.to_owned());
    second.kill();
    eventually_gone(directory);
    TcpStream::connect(address).unwrap_err();
}

#[test]
#[ignore = "the second process of another test"]
fn second_process() {
    let Some(_) = process::argument() else { return };
    let cluster = Cluster::start().unwrap();
    process::say(&format!("{} {}", cluster.address(), cluster.directory().display()));
}

fn sleeping(cluster: &Cluster) -> bool {
    let look = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    cluster.sql("postgres", look).unwrap() == "1"
}

/// Whether the system holds an established connection to this port of the loopback.
fn established(port: u16) -> bool {
    let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let target = format!("0100007F:{port:04X} 01");
    connections.lines().any(|line| line.contains(&target))
}

/// The number of the server's piece of System V memory.
fn memory_of(cluster: &Cluster) -> String {
    let text = std::fs::read_to_string(cluster.data().join("postmaster.pid")).unwrap();
    text.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap().to_owned()
}

fn memory_exists(number: &str) -> bool {
    let all = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    all.lines().any(|line| line.split_whitespace().nth(1) == Some(number))
}
