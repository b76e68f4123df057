//! A client of HTTP/1.1 that keeps its connection, and tells apart what was never sent and what was never answered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longer than any answer takes that is going to come.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection to a server, made anew when it is gone.
pub(crate) struct Client {
    address: SocketAddr,
    patience: Duration,
    stream: Option<BufReader<TcpStream>>,
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
        Self { address, patience: PATIENCE, stream: None }
    }

    pub(crate) fn with_patience(address: SocketAddr, patience: Duration) -> Self {
        Self { address, patience, stream: None }
    }

    /// Makes sure that there is a connection. While this fails nothing was asked, so nothing can have happened.
    pub(crate) fn connect(&mut self) -> io::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.address, self.patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.patience))?;
            stream.set_write_timeout(Some(self.patience))?;
            self.stream = Some(BufReader::new(stream));
        }
        Ok(())
    }

    /// Asks. An error says that nobody knows what became of it.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<Response> {
        self.connect()?;
        let mut stream = self.stream.take().expect("it was just made");
        stream.get_mut().write_all(request(method, path, body).as_bytes())?;
        let (response, keep) = read_response(&mut stream)?;
        self.stream = keep.then_some(stream);
        Ok(response)
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
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
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
    let body = read_body(stream, &headers)?;
    let keep = !headers.iter().any(|(name, value)| name == "connection" && value == "close");
    Ok((Response { status, headers, body }, keep))
}
