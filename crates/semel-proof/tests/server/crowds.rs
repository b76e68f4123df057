//! Everybody at once: clients that come back together after an outage (fault 44), scrapers that hang (fault 46).

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use semel_proof::settings;

use crate::kit::arena::Arena;
use crate::kit::http::{Client, request};
use crate::kit::pause::{pass, until};
use crate::kit::plan::Item;

/// Everybody must have been served by then.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// A client that is not answered for so long tries again.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the crowd met with.
#[derive(Default)]
struct Met {
    shed: AtomicU64,
    lost: AtomicU64,
}

#[test]
fn heavy_server_meets_a_thundering_herd() {
    let clients = if settings::is_soak() { 10_000 } else { 2000 };
    // Fewer connections than clients, whatever the machine allows.
    let arena = Arc::new(Arena::new(44).set("limits.connections=300"));
    let server = arena.open();
    let met = Arc::new(Met::default());
    server.signal(Signal::STOP);
    let threads: Vec<_> = (1..=clients)
        .map(|n| {
            let (arena, met) = (Arc::clone(&arena), Arc::clone(&met));
            let thread = std::thread::Builder::new().stack_size(128 * 1024);
            thread.spawn(move || publish_until_answered(&arena, n, &met)).unwrap()
        })
        .collect();
    pass(Duration::from_secs(1));
    server.signal(Signal::CONT);
    let began = Instant::now();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (shed, lost) = (met.shed.load(Ordering::Relaxed), met.lost.load(Ordering::Relaxed));
    println!(
        "{clients} clients were served {} ms after the outage; 503 {shed} times, no answer {lost} times",
        began.elapsed().as_millis()
    );
    assert!(shed > 0, "more clients than connections, and nobody was told to come back");
    let workers = arena.workers();
    arena.finish_well(server, workers);
}

/// One client: it does not give up, and when it is told to come back it does.
fn publish_until_answered(arena: &Arena, n: u64, met: &Met) {
    until("a client is served", SERVED_WITHIN, || {
        let mut client = Client::with_patience(arena.launch.address, PATIENCE);
        client.connect().ok()?;
        match arena.publish(&mut client, Item::keyed_in("plain", n)) {
            Ok(_) => return Some(()),
            Err((503, _)) => {
                met.shed.fetch_add(1, Ordering::Relaxed);
                pass(Duration::from_secs(1));
            }
            Err((0, _)) => drop(met.lost.fetch_add(1, Ordering::Relaxed)),
            Err(problem) => panic!("not what an overload says: {problem:?}"),
        }
        None
    });
}

/// Scrapers ask for metrics and never take the answers. Each holds its own connection up, and nothing else.
#[test]
fn heavy_server_with_scrapers_that_hang() {
    let arena = Arena::new(46).set("limits.writeTimeout=2s");
    let mut server = arena.open();
    let traffic = arena.traffic();
    let many = request("GET", "/metrics", "").repeat(2000);
    let scrapers: Vec<_> = (0..10).map(|_| hang(&arena, &many)).collect();
    // Scrapers stuck in the middle of asking, too.
    let mut half = TcpStream::connect(arena.launch.address).unwrap();
    half.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
    let before = arena.witness.oks();
    let began = Instant::now();
    until("the work goes on", Duration::from_secs(30), || (arena.witness.oks() > before + 500).then_some(()));
    println!("500 operations beside ten hanging scrapers took {} ms", began.elapsed().as_millis());
    assert_eq!(arena.client().get("/metrics").unwrap().status, 200, "a scraper that reads is served");
    assert!(server.is_running(), "{}", server.read_log());
    // A head that has begun to arrive has its ten seconds, also when the server is asked to end.
    drop(half);
    arena.finish_well(server, traffic);
    drop(scrapers);
}

/// Asks until nothing more is taken, and reads nothing.
fn hang(arena: &Arena, requests: &str) -> TcpStream {
    let mut stream = TcpStream::connect(arena.launch.address).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // It ends when the server's buffers and ours are full, which is what is wanted.
    drop(stream.write_all(requests.as_bytes()));
    stream
}
