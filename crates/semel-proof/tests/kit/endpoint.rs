//! A webhook: a worker that jobs are pushed to, in good and in bad behaviour.

use std::io::{self, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{self, AddressFamily, SocketType};
use semel_proof::dice::{Dice, mixed};
use semel_proof::history::{Call, Say};

use super::http::{read_body, read_head};
use super::pause::Sign;
use super::plan::queue_name;
use super::wire::Delivery;
use super::witness::Witness;

/// How a webhook behaves.
#[derive(Debug, Clone)]
pub(crate) enum Manner {
    /// Does most of its work well; once the sign is given, all of it.
    Usual,
    /// Takes the request and never answers.
    Silent,
    /// Breaks the connection instead of answering.
    Resets,
    /// Answers a byte at a time, for ever.
    Drips,
    /// Says 200 after this long, which is too late.
    Late(Duration),
    /// Says 200 after this long, in time.
    Slow(Duration),
    /// Sends callers elsewhere.
    Redirects(String),
}

/// A webhook that listens until it goes out of scope.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    manner: Manner,
    witness: Arc<Witness>,
    /// From now on everything is done well.
    well: Arc<Sign>,
    over: Sign,
    calls: AtomicUsize,
}

impl Endpoint {
    pub(crate) fn start(manner: Manner, witness: Arc<Witness>, well: Arc<Sign>) -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), manner, witness, well)
    }

    /// The same on another address of this machine.
    pub(crate) fn start_on(ip: IpAddr, manner: Manner, witness: Arc<Witness>, well: Arc<Sign>) -> Self {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared =
            Arc::new(Shared { manner, witness, well, over: Sign::default(), calls: AtomicUsize::new(0) });
        let host = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !host.over.is_given()).flatten() {
                let host = Arc::clone(&host);
                // A connection that breaks is the server's to deal with.
                std::thread::spawn(move || drop(host.serve(stream)));
            }
        });
        Self { address, shared }
    }

    /// How many requests came.
    pub(crate) fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::Relaxed)
    }
}

/// An address that swallows every attempt to connect: nobody accepts there, and those who may wait are waiting.
pub(crate) struct BlackHole {
    pub(crate) address: SocketAddr,
    _listener: OwnedFd,
    _waiting: Vec<TcpStream>,
}

impl BlackHole {
    pub(crate) fn open() -> Self {
        let listener = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        net::listen(&listener, 0).unwrap();
        let address = SocketAddr::try_from(net::getsockname(&listener).unwrap()).unwrap();
        let knock = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let waiting: Vec<_> = std::iter::from_fn(knock).take(10).collect();
        assert!(waiting.len() < 10, "a listener that accepts nobody let ten in");
        Self { address, _listener: listener, _waiting: waiting }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.over.give();
        // The thread that accepts is woken by one more connection.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    /// Answers the requests of one connection.
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        loop {
            let (_, headers) = read_head(&mut stream)?;
            let body = read_body(&mut stream, &headers)?;
            self.calls.fetch_add(1, Ordering::Relaxed);
            let delivery: Delivery = serde_json::from_slice(&body).expect("the body of a delivery");
            self.witness.pushed(queue_name(&delivery.queue), delivery.delivered());
            if !self.answer(&delivery, stream.get_mut())? {
                return Ok(());
            }
        }
    }

    /// Answers one delivery; false if the connection is not to be used again.
    fn answer(&self, delivery: &Delivery, stream: &mut TcpStream) -> io::Result<bool> {
        match &self.manner {
            Manner::Usual => return self.answer_as_usual(delivery, stream),
            Manner::Silent => {
                self.says(delivery, Say::Nack);
                self.over.wait(Duration::from_secs(60));
            }
            Manner::Resets => {
                self.says(delivery, Say::Nack);
                // Closed without lingering, a connection is reset.
                set_socket_linger(&*stream, Some(Duration::ZERO))?;
            }
            Manner::Drips => {
                self.says(delivery, Say::Nack);
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                while !self.over.wait(Duration::from_millis(50)) {
                    stream.write_all(b"1\r\nx\r\n")?;
                }
            }
            Manner::Late(time) => {
                // The server has given it up by then, whatever is said.
                self.says(delivery, Say::Nack);
                self.over.wait(*time);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
            }
            Manner::Slow(time) => {
                self.over.wait(*time);
                self.says(delivery, Say::Ack);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
                return Ok(true);
            }
            Manner::Redirects(to) => {
                self.says(delivery, Say::Nack);
                let answer =
                    format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes())?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn answer_as_usual(&self, delivery: &Delivery, stream: &mut TcpStream) -> io::Result<bool> {
        let token = delivery.token();
        let roll = Dice::new(mixed(token.raw())).below(100);
        let (say, head) = match roll {
            _ if self.well.is_given() => (Say::Ack, "200 OK\r\n"),
            0..=84 => (Say::Ack, "200 OK\r\n"),
            85..=91 => (Say::Nack, "500 Internal Server Error\r\n"),
            92..=93 => (Say::Reject, "410 Gone\r\n"),
            94..=96 => (Say::Defer, "503 Service Unavailable\r\nRetry-After: 1\r\n"),
            _ => {
                self.says(delivery, Say::Nack);
                return Ok(false);
            }
        };
        self.says(delivery, say);
        stream.write_all(format!("HTTP/1.1 {head}Content-Length: 0\r\n\r\n").as_bytes())?;
        Ok(true)
    }

    /// What is said goes out, and nobody tells a webhook whether it arrived.
    fn says(&self, delivery: &Delivery, say: Say) {
        let delivered = delivery.delivered();
        let op = self.witness.invoke(&[Call::Settle { id: delivered.id, token: delivered.token, say }]);
        self.witness.unknown(op, "webhooks are not answered".into());
    }
}
