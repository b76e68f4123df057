//! Replicas: what survives the primary, and what does not.

use std::thread;

use semel_cluster::{Cluster, Proxy, Replication, Side, sql_at};

use crate::process::eventually;

#[test]
fn a_synchronous_replica_has_everything_that_was_acknowledged() {
    let mut primary = Cluster::start().unwrap();
    let replica = Cluster::replica(&primary, Replication::Sync).unwrap();
    primary.sql("postgres", "CREATE TABLE it (n int)").unwrap();
    for n in 1..=20 {
        primary.sql("postgres", &format!("INSERT INTO it VALUES ({n})")).unwrap();
    }
    primary.kill().unwrap();
    replica.promote().unwrap();
    assert_eq!(replica.sql("postgres", "SELECT count(*) FROM it").unwrap(), "20");
    // The new primary waits for nobody.
    sql_at(&replica.url("postgres"), &["INSERT INTO it VALUES (21)"]).unwrap();
}

#[test]
fn a_commit_is_not_acknowledged_before_the_synchronous_replica_has_it() {
    let mut primary = Cluster::start().unwrap();
    primary.sql("postgres", "CREATE TABLE it (n int)").unwrap();
    let stream = Proxy::to(primary.address()).unwrap();
    let replica = Cluster::replica_through(&primary, stream.address(), Replication::Sync).unwrap();
    stream.hold(Side::Server);
    let url = primary.url("postgres");
    thread::scope(|scope| {
        let insert = scope.spawn(|| sql_at(&url, &["INSERT INTO it VALUES (1)"]));
        eventually("a commit that waits", || waiting_commits(&primary) == "1");
        assert!(!insert.is_finished());
        primary.kill().unwrap();
        insert.join().unwrap().unwrap_err();
    });
    replica.promote().unwrap();
    assert_eq!(replica.sql("postgres", "SELECT count(*) FROM it").unwrap(), "0");
    primary.restart().unwrap();
    assert_eq!(
        primary.sql("postgres", "SELECT count(*) FROM it").unwrap(),
        "1",
        "it was only on the primary"
    );
}

#[test]
fn commits_that_wait_go_on_when_they_need_no_replica_any_more() {
    let primary = Cluster::start().unwrap();
    let stream = Proxy::to(primary.address()).unwrap();
    let _replica = Cluster::replica_through(&primary, stream.address(), Replication::Sync).unwrap();
    stream.blackhole();
    let url = primary.url("postgres");
    thread::scope(|scope| {
        let create = scope.spawn(|| sql_at(&url, &["CREATE TABLE it (n int)"]));
        eventually("a commit that waits", || waiting_commits(&primary) == "1");
        primary.commit_waits_for_nobody().unwrap();
        create.join().unwrap().unwrap();
    });
}

#[test]
fn an_asynchronous_replica_lacks_what_had_not_reached_it() {
    let mut primary = Cluster::start().unwrap();
    let stream = Proxy::to(primary.address()).unwrap();
    let replica = Cluster::replica_through(&primary, stream.address(), Replication::Async).unwrap();
    primary.sql("postgres", "CREATE TABLE it AS SELECT 1 AS n").unwrap();
    primary.wait_until_replayed(&replica).unwrap();
    assert_eq!(replica.sql("postgres", "SELECT sum(n) FROM it").unwrap(), "1");
    stream.hold(Side::Server);
    primary.sql("postgres", "INSERT INTO it VALUES (2)").unwrap();
    primary.kill().unwrap();
    replica.promote().unwrap();
    assert_eq!(replica.sql("postgres", "SELECT sum(n) FROM it").unwrap(), "1");
}

fn waiting_commits(primary: &Cluster) -> String {
    primary.sql("postgres", "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").unwrap()
}
