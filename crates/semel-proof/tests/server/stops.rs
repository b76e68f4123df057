//! SIGTERM under load, once and twice (fault 43).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use semel_proof::settings;

use crate::kit::arena::{Arena, assert_ended};
use crate::kit::pause::pass;

/// What was accepted is finished, and what comes later is for the next server.
#[test]
fn heavy_server_asked_to_end_under_load() {
    let arena = Arena::new(settings::seed());
    let mut server = arena.open();
    let traffic = arena.traffic();
    for _ in 0..2 {
        pass(Duration::from_millis(700));
        assert_ended(&server.stop(), 0, "stopped");
        server = arena.launch.start();
    }
    arena.finish_well(server, traffic);
}

/// A second signal does not wait for anything, and still nothing that was answered is lost.
#[test]
fn heavy_server_asked_twice_to_end_under_load() {
    let arena = Arena::new(settings::seed());
    let mut server = arena.open();
    let traffic = arena.traffic();
    pass(Duration::from_millis(700));
    // A request that keeps the server waiting: its body never comes.
    let mut endless = TcpStream::connect(arena.launch.address).unwrap();
    let head = "POST /v1/queues/plain/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    endless.write_all(head.as_bytes()).unwrap();
    // Sent when the body is waited for. An answer to somebody else would not say that this request has been looked at, and one
    // that has not is let go.
    let mut told = [0; 12];
    endless.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    endless.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"HTTP/1.1 100");
    server.signal(Signal::TERM);
    server.wait_for("a second signal ends the process at once");
    server.signal(Signal::TERM);
    assert_ended(&server.ended(), 143, "ended at once");
    let server = arena.launch.start();
    arena.finish_well(server, traffic);
}
