//! PgBouncer in front of a cluster.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use semel_cluster::{Bouncer, Cluster, Proxy, sql_at};

use crate::process::eventually;

#[test]
fn a_pooler_answers_and_ends_with_its_guard() {
    let cluster = Cluster::start().unwrap();
    let bouncer = Bouncer::start(&cluster).unwrap();
    let port = "SELECT current_setting('port')";
    let answer = sql_at(&bouncer.url("postgres"), &["BEGIN", port, "COMMIT"]).unwrap();
    assert_eq!(answer, cluster.address().port().to_string());
    let address = bouncer.address();
    drop(bouncer);
    TcpStream::connect(address).unwrap_err();
}

#[test]
fn clients_that_are_idle_hold_no_connection_to_the_server() {
    let cluster = Cluster::start().unwrap();
    let bouncer = Bouncer::start(&cluster).unwrap();
    // A client that keeps its connection open would keep a server's with it if sessions were pooled. There are four.
    let idle: Vec<_> = (0..4).map(|_| IdleClient::connect(&bouncer)).collect();
    assert_eq!(sql_at(&bouncer.url("postgres"), &["SELECT 1"]).unwrap(), "1");
    drop(idle);
}

#[test]
fn a_pooler_finds_its_server_again() {
    let cluster = Cluster::start().unwrap();
    let network = Proxy::to(cluster.address()).unwrap();
    let bouncer = Bouncer::through(&cluster, network.address()).unwrap();
    let url = bouncer.url("postgres");
    assert_eq!(sql_at(&url, &["SELECT 1"]).unwrap(), "1");
    assert_eq!(network.cut(), 1);
    eventually("an answer", || sql_at(&url, &["SELECT 2"]).is_ok_and(|two| two == "2"));
}

/// A client that has asked something and stays connected.
struct IdleClient(Child);

impl IdleClient {
    fn connect(bouncer: &Bouncer) -> Self {
        let mut process = Command::new("psql")
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--dbname", &bouncer.url("postgres")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(process.stdin.as_mut().unwrap(), "SELECT 1;").unwrap();
        let mut answer = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        assert_eq!(answer, "1\n");
        Self(process)
    }
}

impl Drop for IdleClient {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
