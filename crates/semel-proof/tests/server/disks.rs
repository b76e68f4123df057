//! A disk that is full, a directory that cannot be written, a directory that somebody else has (faults 8 and 10).

use std::fs;
use std::path::Path;
use std::time::Duration;

use semel_proof::disk::{Disk, skip};
use serde_json::{Value, json};

use crate::kit::arena::{Arena, assert_ended};
use crate::kit::http::Client;
use crate::kit::pause::until;
use crate::kit::process::{Launch, Server};

const MEGABYTE: usize = 1 << 20;

fn small_disk(home: &Path, megabytes: u64) -> Result<Disk, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root to mount a small disk".into());
    }
    Disk::small(home, megabytes).map_err(|e| e.to_string())
}

/// Publishes a job of some two hundred kilobytes: its id, or the status and code of the refusal.
fn publish(client: &mut Client) -> Result<String, (u16, String)> {
    let body = json!({ "payload": "x".repeat(200_000) }).to_string();
    let answer = client.post("/v1/queues/plain/jobs", &body).unwrap();
    match answer.status {
        201 => Ok(answer.json()["id"].as_str().unwrap().to_owned()),
        status => Err((status, answer.code())),
    }
}

fn work(client: &mut Client) -> String {
    let leased = client.post("/v1/queues/plain/lease", r#"{"leaseSeconds": 60}"#).unwrap();
    assert_eq!(leased.status, 200, "{}", leased.text());
    let job = &leased.json()["jobs"][0];
    let (id, lease) = (job["id"].as_str().unwrap(), job["lease"].as_str().unwrap());
    let acked = client.post(&format!("/v1/jobs/{id}/ack"), &json!({ "lease": lease }).to_string()).unwrap();
    assert_eq!(acked.status, 200, "a settle on a full disk: {}", acked.text());
    id.to_owned()
}

fn status_of(client: &mut Client, id: &str) -> Value {
    let answer = client.get(&format!("/v1/jobs/{id}")).unwrap();
    assert_eq!(answer.status, 200, "{id} was answered, and is gone: {}", answer.text());
    answer.json()["status"].clone()
}

/// New jobs are refused while the old ones are still settled and read; when there is room, everything goes on.
#[test]
fn heavy_server_on_a_full_disk() {
    let home = tempfile::tempdir().unwrap();
    let disk = match small_disk(home.path(), 160) {
        Ok(disk) => disk,
        Err(why) => return skip("full disk of a server", &why),
    };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 60 * MEGABYTE]).unwrap();
    let arena = Arena::at(&disk.path().join("store"), 8);
    let server = arena.open();
    let mut client = arena.client();
    let mut stored = Vec::new();
    let refusal = loop {
        match publish(&mut client) {
            Ok(id) => stored.push(id),
            Err(refusal) => break refusal,
        }
        assert!(stored.len() < 1000, "a disk of 160 MB took 200 MB");
    };
    println!("full after {} jobs: {refusal:?}", stored.len());
    assert_eq!(refusal, (507, "storage_full".to_owned()));
    let done = work(&mut client);
    assert_eq!(status_of(&mut client, &done), "completed");
    assert_eq!(publish(&mut client).unwrap_err().0, 507, "still full");
    fs::remove_file(&ballast).unwrap();
    stored.push(until("publishes work again", Duration::from_secs(10), || publish(&mut client).ok()));
    server.kill();
    let server = arena.launch.start();
    let mut client = arena.client();
    for id in &stored {
        let expected = if *id == done { "completed" } else { "pending" };
        assert_eq!(status_of(&mut client, id), expected, "{id}");
    }
    assert_eq!(server.stop().status.code(), Some(0));
}

#[test]
fn heavy_server_refuses_a_directory_that_it_cannot_have() {
    let arena = Arena::new(10);
    let server = arena.open();
    let second = Launch::new(&arena.data);
    let ended = Server::spawn(second.command(), second.address).ended();
    assert_ended(&ended, 2, "in use by process");
    assert!(ended.log.contains(&server.pid().to_string()), "it says whose it is: {}", ended.log);
    assert_eq!(server.stop().status.code(), Some(0), "the first goes on");

    let home = tempfile::tempdir().unwrap();
    let disk = match small_disk(home.path(), 16) {
        Ok(disk) => disk,
        Err(why) => return skip("read-only directory of a server", &why),
    };
    disk.make_read_only().unwrap();
    let third = Launch::new(&disk.path().join("store"));
    let ended = Server::spawn(third.command(), third.address).ended();
    assert_ended(&ended, 2, "store");
    assert!(ended.log.to_lowercase().contains("read-only"), "{}", ended.log);
}
