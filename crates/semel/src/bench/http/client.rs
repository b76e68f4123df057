//! A lean HTTP/1.1 client. It shares two cores with the server, so whatever it spends is missing there.

use std::net::SocketAddr;
use std::ops::Range;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::failure::Failure;

/// One connection, used for one request at a time.
#[derive(Debug)]
pub(super) struct Conn {
    stream: TcpStream,
    address: SocketAddr,
    secret: String,
    out: Vec<u8>,
    buffer: Vec<u8>,
}

impl Conn {
    pub(super) async fn open(address: SocketAddr, secret: &str) -> Result<Self, Failure> {
        let failed = Failure::io(format!("connect to {address}"));
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(Failure::io("set TCP_NODELAY"))?;
        Ok(Self {
            stream,
            address,
            secret: secret.to_owned(),
            out: Vec::new(),
            buffer: Vec::with_capacity(8192),
        })
    }

    /// Sends a body and returns the answer's; anything but a 2xx is a failure.
    pub(super) async fn post(&mut self, path: &str, body: &[u8]) -> Result<String, Failure> {
        self.request("POST", path, body).await
    }

    pub(super) async fn put(&mut self, path: &str, body: &[u8]) -> Result<String, Failure> {
        self.request("PUT", path, body).await
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<String, Failure> {
        self.request("GET", path, b"").await
    }

    async fn request(&mut self, method: &str, path: &str, body: &[u8]) -> Result<String, Failure> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        out.extend_from_slice(self.head(method, path, body.len()).as_bytes());
        out.extend_from_slice(body);
        let answered = self.exchange(&out).await.map(|body| self.text(body));
        self.out = out;
        answered
    }

    /// What a request begins with.
    pub(super) fn head(&self, method: &str, path: &str, length: usize) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n",
            self.address, self.secret,
        )
    }

    /// Sends a whole request and waits for its answer, which must be a 2xx; where its body is.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<Range<usize>, Failure> {
        self.stream.write_all(request).await.map_err(Failure::io("send a request"))?;
        let (status, body) = self.answer().await?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let asked = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let (asked, body) = (String::from_utf8_lossy(asked), self.text(body));
        Err(Failure::Broken(format!("{asked} was answered {status}: {body}")))
    }

    fn text(&self, body: Range<usize>) -> String {
        String::from_utf8_lossy(&self.buffer[body]).into_owned()
    }

    async fn answer(&mut self) -> Result<(u16, Range<usize>), Failure> {
        self.buffer.clear();
        loop {
            if let Some(answer) = read_answer(&self.buffer) {
                return Ok(answer);
            }
            let read = self.stream.read_buf(&mut self.buffer).await.map_err(Failure::io("read an answer"))?;
            if read == 0 {
                return Err(Failure::Broken(
                    "the server closed a connection in the middle of an answer".into(),
                ));
            }
        }
    }
}

/// The length a head announces, and where its body starts; `None` while the head is not whole.
pub(super) fn read_head(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Some((end, length.unwrap_or(0)))
}

/// The status of an answer, and where its body is; `None` while it is not whole.
fn read_answer(bytes: &[u8]) -> Option<(u16, Range<usize>)> {
    let (start, length) = read_head(bytes)?;
    let body = start..start + length;
    bytes.get(body.clone())?;
    let status = std::str::from_utf8(bytes.get(9..12)?).ok()?.parse().ok()?;
    Some((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        let whole = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(read_answer(whole), Some((201, whole.len() - 2..whole.len())));
        assert_eq!(read_answer(&whole[..whole.len() - 1]), None);
        assert_eq!(read_answer(b"HTTP/1.1 204 No Content\r\n\r\n"), Some((204, 27..27)));
    }
}
