//! A client of a server that is really killed.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::Signal;
use semel_client::Publish;
use semel_client::http::Client;
use semel_cluster::{Proxy, Seen, Side, Trap};

use crate::server::{Server, semel};

/// Starts a server on a port of its own choice, or on the one that another had.
pub(crate) fn serve(data: &std::path::Path, listen: SocketAddr) -> Server {
    let mut command = semel();
    command.args(["serve", "--listen", &listen.to_string(), "--data"]).arg(data);
    Server::start(&mut command, "listening")
}

pub(crate) const ANYWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[test]
fn a_server_killed_between_commit_and_answer_still_has_one_job() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path(), ANYWHERE);
    assert!(server.ask("PUT", "/v1/queues/orders", None, r#"{"delivery":{"type":"pull"}}"#).0 < 300);
    let address = server.address;
    let proxy = Proxy::to(address).expect("a proxy");
    // The job is on disk when the server answers; the answer is held back, and the server dies.
    let answer = Seen::Bytes(b"HTTP/1.1 201".to_vec());
    proxy.cut_when(Trap { from: Side::Server, when: answer, deliver: false });
    let client = Client::new(format!("http://{}", proxy.address())).expect("a client");
    let wish = Publish::new("orders", &17).expect("JSON");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let sent = wish.clone();
    let publishing = runtime.spawn(async move { client.publish(&sent).await });
    assert!(proxy.wait_until_sprung(Duration::from_secs(30)), "nothing was answered");
    server.signal(Signal::KILL);
    assert_eq!(server.ended().code, None, "it was killed");
    let server = serve(dir.path(), address);
    let published = runtime.block_on(publishing).expect("it ends").expect("it is published");
    assert!(published.deduplicated, "the first try had made the job");
    let (_, jobs) = server.ask("GET", "/v1/jobs?queue=orders", None, "");
    let jobs = jobs["jobs"].as_array().expect("a list");
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(
        (&jobs[0]["id"], &jobs[0]["idempotencyKey"]),
        (&published.id.into(), &wish.idempotency_key().into())
    );
    assert_eq!(server.stop().code, Some(0));
}
