//! One connection through the proxy: for each direction a thread that reads and one that writes, so that a delay holds
//! up every byte equally and not one behind the other.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Instant,
};

use super::{Side, rules::Network};

/// How much is under way in one direction before its reader stops, as a real sender stops when its window is full.
const CHUNKS: usize = 256;
const CHUNK_BYTES: usize = 16 * 1024;

/// Something that was read, and when. Nothing at all is the end of the stream, which takes as long as bytes do.
type Chunk = (Instant, Vec<u8>);

#[derive(Debug)]
pub(super) struct Connection {
    /// By side.
    sockets: [TcpStream; 2],
    closed: AtomicBool,
    /// Directions that have not ended.
    open: AtomicUsize,
}

impl Connection {
    /// Starts to carry bytes between the two.
    pub(super) fn open(network: &Arc<Network>, client: TcpStream, server: TcpStream) {
        let connection = Arc::new(Self {
            sockets: [client, server],
            closed: AtomicBool::new(false),
            open: AtomicUsize::new(2),
        });
        network.enter(Arc::clone(&connection));
        for from in [Side::Client, Side::Server] {
            let (chunks, arrivals) = sync_channel(CHUNKS);
            let reader = Arc::clone(&connection);
            thread::spawn(move || read(&reader.sockets[from.index()], &chunks));
            let (connection, network) = (Arc::clone(&connection), Arc::clone(network));
            thread::spawn(move || {
                write(&network, &connection, from, &arrivals);
                connection.end_direction(&network);
            });
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes both sides. An error means that the other end was faster.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for socket in &self.sockets {
            socket.shutdown(Shutdown::Both).ok();
        }
    }

    fn end_direction(self: &Arc<Self>, network: &Network) {
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.close();
            network.leave(self);
        }
    }
}

fn read(mut socket: &TcpStream, chunks: &SyncSender<Chunk>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        // A reset is passed on as an end: the difference is not worth a privilege.
        let length = socket.read(&mut buffer).unwrap_or(0);
        let sent = chunks.send((Instant::now(), buffer[..length].to_vec()));
        if length == 0 || sent.is_err() {
            return;
        }
    }
}

fn write(network: &Network, connection: &Connection, from: Side, chunks: &Receiver<Chunk>) {
    let mut target = &connection.sockets[1 - from.index()];
    let mut before = Vec::new();
    for (read_at, chunk) in chunks {
        if !network.wait_for_passage(connection, from.index(), read_at) {
            return;
        }
        if chunk.is_empty() {
            target.shutdown(Shutdown::Write).ok();
            return;
        }
        if let Some(length) = sprung(network, from, &mut before, &chunk) {
            // Marked first: the answer to what is delivered now must not slip through.
            connection.closed.store(true, Ordering::SeqCst);
            target.write_all(&chunk[..length]).ok();
            connection.close();
            network.change(|rules| rules.sprung = true);
            return;
        }
        if target.write_all(&chunk).is_err() {
            return;
        }
    }
}

/// How much of the chunk still arrives if it springs the trap, which is gone then: it catches one connection.
/// Otherwise `before` holds what the next chunk needs.
fn sprung(network: &Network, from: Side, before: &mut Vec<u8>, chunk: &[u8]) -> Option<usize> {
    network.with(|rules| {
        let trap = rules.trap.as_mut().filter(|trap| trap.from == from)?;
        let length = trap.springs(before, chunk);
        before.extend_from_slice(chunk);
        before.drain(..before.len().saturating_sub(trap.memory()));
        length.inspect(|_| rules.trap = None)
    })
}
