//! A network that misbehaves on command.

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use semel_cluster::{Cluster, Proxy, Seen, Side, Trap, sql_at};

use crate::process::eventually;

/// Long enough for a byte on the loopback, also on a busy machine.
const WAIT: Duration = Duration::from_secs(20);

/// A proxy, and the two ends of a connection through it.
struct Line {
    listener: TcpListener,
    proxy: Proxy,
    client: TcpStream,
    server: TcpStream,
}

impl Line {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::to(listener.local_addr().unwrap()).unwrap();
        let client = TcpStream::connect(proxy.address()).unwrap();
        let (server, _) = listener.accept().unwrap();
        // The server's end is there a moment before the proxy has put the two together.
        eventually("a connection", || proxy.connections() == 1);
        for end in [&client, &server] {
            end.set_read_timeout(Some(WAIT)).unwrap();
        }
        Self { listener, proxy, client, server }
    }
}

#[test]
fn what_one_side_sends_arrives_at_the_other_also_the_end() {
    let mut line = Line::open();
    line.client.write_all(b"question").unwrap();
    assert_eq!(received(&mut line.server, 8), b"question");
    line.server.write_all(b"answer").unwrap();
    assert_eq!(received(&mut line.client, 6), b"answer");
    assert_eq!(line.proxy.connections(), 1);
    drop(line.client);
    assert_eq!(rest(&mut line.server), b"");
    drop(line.server);
    eventually("the end of the connection", || line.proxy.connections() == 0);
}

#[test]
fn a_delay_is_each_bytes_own_and_not_one_behind_the_other() {
    const DELAY: Duration = Duration::from_millis(300);
    const CHUNKS: usize = 20;
    let mut line = Line::open();
    line.proxy.delay(DELAY);
    let began = Instant::now();
    for _ in 0..CHUNKS {
        line.client.write_all(b"x").unwrap();
    }
    received(&mut line.server, CHUNKS);
    let took = began.elapsed();
    assert!(took >= DELAY, "it took only {took:?}");
    assert!(took < DELAY * 10, "{took:?} is {CHUNKS} delays in a row");
}

#[test]
fn a_partition_in_one_direction_leaves_the_other_and_heals() {
    let mut line = Line::open();
    line.proxy.hold(Side::Client);
    line.client.write_all(b"late").unwrap();
    line.server.write_all(b"in time").unwrap();
    assert_eq!(received(&mut line.client, 7), b"in time");
    assert!(is_silent(&mut line.server));
    line.proxy.pass();
    assert_eq!(received(&mut line.server, 4), b"late");
}

#[test]
fn nothing_crosses_a_black_hole_until_it_closes() {
    let mut line = Line::open();
    line.proxy.blackhole();
    line.client.write_all(b"there").unwrap();
    line.server.write_all(b"here").unwrap();
    assert!(is_silent(&mut line.server));
    assert!(is_silent(&mut line.client));
    line.proxy.pass();
    assert_eq!(received(&mut line.server, 5), b"there");
    assert_eq!(received(&mut line.client, 4), b"here");
}

#[test]
fn a_cut_ends_every_connection_and_what_was_on_its_way() {
    let mut line = Line::open();
    line.proxy.blackhole();
    line.client.write_all(b"lost").unwrap();
    assert_eq!(line.proxy.cut(), 1);
    assert_eq!(rest(&mut line.server), b"");
    assert_eq!(rest(&mut line.client), b"");
    assert_eq!(line.proxy.connections(), 0);
    line.proxy.pass();
    TcpStream::connect(line.proxy.address()).unwrap();
    line.listener.accept().unwrap();
}

#[test]
fn new_connections_are_refused_and_old_ones_stay() {
    let mut line = Line::open();
    for _ in 0..20 {
        line.proxy.refuse();
        let error = TcpStream::connect(line.proxy.address()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        line.client.write_all(b"!").unwrap();
        assert_eq!(received(&mut line.server, 1), b"!");
        line.proxy.pass();
        TcpStream::connect(line.proxy.address()).unwrap();
    }
}

#[test]
fn a_trap_cuts_after_so_many_bytes() {
    let mut line = Line::open();
    line.proxy.cut_when(Trap { from: Side::Server, when: Seen::Count(3), deliver: true });
    line.server.write_all(b"abcdef").unwrap();
    assert_eq!(rest(&mut line.client), b"abc");
    assert!(line.proxy.wait_until_sprung(WAIT));
}

#[test]
fn a_trap_delivers_what_springs_it_or_not_and_never_the_answer() {
    for deliver in [true, false] {
        let mut line = Line::open();
        line.proxy.cut_when(Trap { from: Side::Client, when: Seen::Bytes(b"go".to_vec()), deliver });
        line.client.write_all(b"well g").unwrap();
        assert_eq!(received(&mut line.server, 6), b"well g");
        line.server.write_all(b"heard").unwrap();
        assert_eq!(received(&mut line.client, 5), b"heard");
        line.client.write_all(b"o on").unwrap();
        assert!(line.proxy.wait_until_sprung(WAIT));
        assert_eq!(rest(&mut line.server), if deliver { &b"o on"[..] } else { b"" });
        assert_eq!(rest(&mut line.client), b"");
    }
}

#[test]
fn commits_are_lost_on_their_way_there_or_back() {
    let cluster = Cluster::start().unwrap();
    cluster.sql("postgres", "CREATE TABLE it (n int)").unwrap();
    let proxy = Proxy::to(cluster.address()).unwrap();
    let url = cluster.url_through(proxy.address(), "postgres");
    let fates = [(Trap::commit_lost(), "0"), (Trap::commit_sent(), "1"), (Trap::commit_answer_lost(), "1")];
    for (trap, rows) in fates {
        proxy.cut_when(trap);
        sql_at(&url, &["BEGIN", "INSERT INTO it VALUES (1)", "COMMIT"]).unwrap_err();
        assert!(proxy.wait_until_sprung(WAIT));
        // The server goes on with what it has received after its client is gone.
        eventually("the end of the transaction", || backends(&cluster) == "0");
        assert_eq!(cluster.sql("postgres", "SELECT count(*) FROM it").unwrap(), rows);
        cluster.sql("postgres", "TRUNCATE it").unwrap();
    }
}

/// Clients other than the one that asks.
fn backends(cluster: &Cluster) -> String {
    let look = "SELECT count(*) FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    cluster.sql("postgres", look).unwrap()
}

fn received(end: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    end.read_exact(&mut bytes).unwrap();
    bytes
}

/// Everything until the connection ends, in order or not.
fn rest(end: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match end.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => bytes,
    }
}

/// Whether nothing comes for a while.
fn is_silent(end: &mut TcpStream) -> bool {
    end.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let error = end.read(&mut [0]).err();
    end.set_read_timeout(Some(WAIT)).unwrap();
    error.is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
}
