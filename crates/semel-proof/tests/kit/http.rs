//! A client of HTTP/1.1 that keeps its connections, and tells apart what was never sent and what was never answered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longer than any answer takes that is going to come.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a server is left alone that could not be reached or did not do what it was asked, while there are others.
const SHUNNED: Duration = Duration::from_secs(1);

/// Where servers are that serve the same jobs, and how to be let in.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) addresses: Vec<SocketAddr>,
    /// The API key; none where nobody asks for one.
    pub(crate) key: Option<String>,
    /// How long an answer is waited for.
    pub(crate) patience: Duration,
}

impl From<SocketAddr> for Door {
    fn from(address: SocketAddr) -> Self {
        Self { addresses: vec![address], key: None, patience: PATIENCE }
    }
}

/// Connections to the servers behind a door, used in turn, and made anew when they are gone.
pub(crate) struct Client {
    lines: Vec<Line>,
    at: usize,
    key: Option<String>,
    patience: Duration,
}

struct Line {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
    failed: Option<Instant>,
}

impl Line {
    fn is_shunned(&self) -> bool {
        self.failed.is_some_and(|at| at.elapsed() < SHUNNED)
    }

    fn connect(&mut self, patience: Duration) -> io::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.address, patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            self.stream = Some(BufReader::new(stream));
        }
        Ok(())
    }
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::of(&address.into())
    }

    pub(crate) fn with_patience(address: SocketAddr, patience: Duration) -> Self {
        Self::of(&Door { patience, ..address.into() })
    }

    pub(crate) fn of(door: &Door) -> Self {
        let line = |address: &SocketAddr| Line { address: *address, stream: None, failed: None };
        let Door { addresses, key, patience } = door;
        Self { lines: addresses.iter().map(line).collect(), at: 0, key: key.clone(), patience: *patience }
    }

    /// Makes sure that there is a connection. While this fails nothing was asked, so nothing can have happened.
    pub(crate) fn connect(&mut self) -> io::Result<()> {
        let all_shunned = self.lines.iter().all(Line::is_shunned);
        let mut ended = io::Error::from(io::ErrorKind::NotConnected);
        for _ in 0..self.lines.len() {
            let line = &mut self.lines[self.at];
            if all_shunned || !line.is_shunned() {
                match line.connect(self.patience) {
                    Ok(()) => return Ok(()),
                    Err(error) => ended = error,
                }
                line.failed = Some(Instant::now());
            }
            self.turn();
        }
        Err(ended)
    }

    /// Goes on to the next server.
    pub(crate) fn turn(&mut self) {
        self.at = (self.at + 1) % self.lines.len();
    }

    /// Asks one of the servers. An error says that nobody knows what became of it.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<Response> {
        self.connect()?;
        let request = request_by(self.key.as_deref(), method, path, body);
        let line = &mut self.lines[self.at];
        let mut stream = line.stream.take().expect("it was just made");
        let sent = stream.get_mut().write_all(request.as_bytes());
        let asked = sent.and_then(|()| read_response(&mut stream));
        let fine = asked.as_ref().is_ok_and(|(response, _)| response.status < 500);
        line.failed = (!fine).then(Instant::now);
        line.stream = asked.as_ref().is_ok_and(|(_, keep)| *keep).then_some(stream);
        self.turn();
        asked.map(|(response, _)| response)
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Response> {
        self.ask("GET", path, "")
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> io::Result<Response> {
        self.ask("POST", path, body)
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e} in an answer with {}: {}", self.status, self.text()))
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or("none").to_owned()
    }
}

pub(crate) fn request(method: &str, path: &str, body: &str) -> String {
    request_by(None, method, path, body)
}

fn request_by(key: Option<&str>, method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{key}Content-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Reads the lines of a head: the first, and the headers with their names in lower case.
pub(crate) fn read_head(stream: &mut impl BufRead) -> io::Result<(String, Vec<(String, String)>)> {
    let mut line = || {
        let mut line = String::new();
        match stream.read_line(&mut line)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Ok(line.trim_end().to_owned()),
        }
    };
    let (first, mut headers) = (line()?, Vec::new());
    loop {
        let header = line()?;
        if header.is_empty() {
            return Ok((first, headers));
        }
        let (name, value) =
            header.split_once(':').ok_or_else(|| io::Error::other("a header without a colon"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Reads a body of the length that the headers tell.
pub(crate) fn read_body(stream: &mut impl Read, headers: &[(String, String)]) -> io::Result<Vec<u8>> {
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.ok_or_else(|| io::Error::other("a body of unknown length"))?];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn read_response(stream: &mut BufReader<TcpStream>) -> io::Result<(Response, bool)> {
    let (first, headers) = read_head(stream)?;
    let status = first.get(9..12).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status in {first:?}")))?;
    // 204: there is no body, and no length of it.
    let body = if status == 204 { Vec::new() } else { read_body(stream, &headers)? };
    let keep = !headers.iter().any(|(name, value)| name == "connection" && value == "close");
    Ok((Response { status, headers, body }, keep))
}
