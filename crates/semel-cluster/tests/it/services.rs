//! MariaDB and Redis: they start, survive what is done to them, and leave nothing behind. RabbitMQ takes long to start,
//! so the one test that needs it (`examples/other-queues`) also looks what is left of it.

use std::{net::TcpStream, path::Path, time::Duration};

use semel_cluster::{Maria, Redis, SharedMaria};

use crate::process::{self, Second, eventually_gone};

#[test]
fn a_mariadb_keeps_what_was_committed_when_it_is_killed_or_stopped() {
    let mut maria = Maria::start().unwrap();
    maria.sql("CREATE TABLE test.it (n INT); INSERT INTO test.it VALUES (1)").unwrap();
    maria.kill().unwrap();
    maria.sql("SELECT 1").unwrap_err();
    maria.restart().unwrap();
    maria.sql("INSERT INTO test.it VALUES (2)").unwrap();
    maria.set("max-connections", "33");
    maria.restart().unwrap();
    assert_eq!(maria.sql("SELECT sum(n), @@max_connections FROM test.it").unwrap(), "3\t33");
}

#[test]
fn the_user_of_a_mariadb_s_url_is_stopped_by_read_only() {
    let maria = Maria::with(&[("read-only", "1")]).unwrap();
    let grants = maria.sql("SHOW GRANTS FOR semel@'127.0.0.1'").unwrap();
    assert!(!grants.contains("ALL PRIVILEGES ON *.*"), "{grants}");
    assert_eq!(maria.sql("SELECT @@read_only").unwrap(), "1");
}

#[test]
fn databases_of_the_shared_mariadb_come_and_go_with_their_guards() {
    let shared = SharedMaria::get().unwrap();
    let (one, other) = (shared.database().unwrap(), shared.database().unwrap());
    one.sql("CREATE TABLE it (n INT)").unwrap();
    assert_eq!(one.sql("SHOW TABLES").unwrap(), "it");
    assert_eq!(other.sql("SHOW TABLES").unwrap(), "");
    let look = format!("SHOW DATABASES LIKE '{}'", one.name());
    drop(one);
    assert_eq!(shared.sql(&look).unwrap(), "");
}

#[test]
fn a_mariadb_that_processes_share_ends_after_the_last() {
    let place = tempfile::tempdir().unwrap();
    let second = Second::start("services::second_process", place.path().to_str().unwrap());
    let shared = SharedMaria::at(place.path(), Duration::from_secs(1)).unwrap();
    assert_eq!(shared.directory(), Path::new(&second.word));
    let directory = shared.directory().to_owned();
    second.kill();
    assert_eq!(shared.sql("SELECT 1").unwrap(), "1");
    drop(shared);
    eventually_gone(directory);
}

#[test]
fn a_redis_keeps_what_it_is_told_to_keep() {
    let mut redis = Redis::with(&[("appendonly", "yes"), ("appendfsync", "always")]).unwrap();
    redis.command(&["SET", "it", "kept"]).unwrap();
    redis.kill().unwrap();
    redis.command(&["PING"]).unwrap_err();
    redis.restart().unwrap();
    assert_eq!(redis.command(&["GET", "it"]).unwrap(), "kept");
}

#[test]
fn a_redis_without_memory_and_a_replica_refuse_to_write() {
    let redis = Redis::with(&[("maxmemory", "1")]).unwrap();
    let error = redis.command(&["SET", "it", "lost"]).unwrap_err().to_string();
    assert!(error.contains("OOM"), "{error}");
    let replica = redis.replica().unwrap();
    let error = replica.command(&["SET", "it", "lost"]).unwrap_err().to_string();
    assert!(error.contains("READONLY"), "{error}");
}

#[test]
fn a_redis_asks_for_its_password() {
    let redis = Redis::start().unwrap();
    let mut stranger = TcpStream::connect(redis.address()).unwrap();
    std::io::Write::write_all(&mut stranger, b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    std::io::Read::read_exact(&mut stranger, &mut answer).unwrap();
    assert_eq!(&answer, b"-NOAUTH");
}

#[test]
fn nothing_is_left_of_servers_whose_process_is_killed() {
    let second = Second::start("services::second_process", "");
    let directories: Vec<String> = second.word.split(' ').map(str::to_owned).collect();
    assert!(directories.iter().all(|directory| !processes_in(Path::new(directory)).is_empty()));
    second.kill();
    for directory in &directories {
        eventually_gone(directory);
        assert_eq!(processes_in(Path::new(directory)), Vec::<String>::new());
    }
}

#[test]
#[ignore = "the second process of another test"]
fn second_process() {
    match process::argument().as_deref() {
        None => {}
        Some("") => {
            let (maria, redis) = (Maria::start().unwrap(), Redis::start().unwrap());
            process::say(&format!("{} {}", maria.directory().display(), redis.directory().display()));
        }
        Some(place) => {
            let shared = SharedMaria::at(Path::new(place), Duration::from_secs(1)).unwrap();
            process::say(shared.directory().to_str().unwrap());
        }
    }
}

/// The command lines that name this directory.
fn processes_in(directory: &Path) -> Vec<String> {
    let name = directory.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    all.filter(|line| line.contains(name) && !line.contains("semel-watchdog")).collect()
}
