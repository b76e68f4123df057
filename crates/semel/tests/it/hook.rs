//! A webhook on this machine: keeps what it gets, and answers as it was told.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a webhook got.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a delivery is JSON")
    }
}

/// A webhook. It lives until the process ends.
pub(crate) struct Hook {
    pub(crate) address: SocketAddr,
    got: Receiver<Got>,
    answers: Sender<String>,
}

impl Hook {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, got) = channel();
        let (answers, script) = channel::<String>();
        thread::spawn(move || {
            // The first answer that was not given: a connection may end before it asked for one.
            for stream in listener.incoming().flatten() {
                serve(stream, &sender, &script);
            }
        });
        Self { address, got, answers }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?token=sesame", self.address)
    }

    /// What the next request is answered with: the status and headers, without the length.
    pub(crate) fn answer(&self, head: &str) {
        self.answers.send(head.to_owned()).expect("the hook lives");
    }

    /// Waits for the next request.
    pub(crate) fn next(&self) -> Got {
        self.got.recv_timeout(DEADLINE).expect("a request")
    }
}

/// Answers one request after the other. A connection is closed after each, so that none waits behind another.
fn serve(mut stream: TcpStream, got: &Sender<Got>, script: &Receiver<String>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let Some(request) = read(&mut reader) else { return };
    if got.send(request).is_err() {
        return;
    }
    let Ok(head) = script.recv_timeout(DEADLINE) else { return };
    // Whoever asked may be gone, which is for the test to notice.
    drop(write!(stream, "HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
}

fn read(reader: &mut impl BufRead) -> Option<Got> {
    let mut lines = reader.by_ref().lines().map_while(Result::ok);
    lines.next()?;
    let headers: BTreeMap<_, _> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        })
        .collect();
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Got { headers, body })
}
