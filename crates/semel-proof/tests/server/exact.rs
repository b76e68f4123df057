//! Killed at one exact system call (fault 2): before the append, after it, after the sync and before the answer. A retry
//! with the key always gives the same job.

use std::time::Duration;

use semel_proof::disk::skip;
use semel_proof::injector;

use crate::kit::arena::Arena;
use crate::kit::http::Client;
use crate::kit::pause::until;
use crate::kit::plan::Item;

/// A server that never makes the call fails the test after this long.
const LIMIT: Duration = Duration::from_secs(30);
/// The numbers of the jobs of this test, apart from those of the traffic.
const FIRST: u64 = 1_000_000;

/// Where it is killed: the moment, the system call, and the how-manieth of a thread's. A start makes some of them too.
const MOMENTS: [(&str, &str, u32); 4] = [
    ("before the append", "pwrite64", 90),
    ("after the append, before the sync", "fdatasync", 16),
    ("after the sync, before the answer", "writev", 8),
    ("after the sync, before another answer", "writev", 15),
];

#[test]
fn heavy_server_killed_at_any_step_of_a_publish() {
    if let Err(why) = injector::available() {
        return skip("server killed at a system call", &why);
    }
    let arena = Arena::new(2);
    arena.open().kill();
    for ((moment, call, when), round) in MOMENTS.into_iter().zip(1..) {
        let command =
            injector::with_fault(&arena.launch.command(), call, &format!("{call}:signal=KILL:when={when}"));
        let mut server = arena.launch.start_as(command);
        let (answered, lost) = publish_until_it_dies(&arena, FIRST * round);
        until("the server is killed", LIMIT, || (!server.is_running()).then_some(()));
        let ended = server.kill();
        let server = arena.launch.start();
        let retried = retry(&arena, &answered, lost);
        println!("{moment}: {} answered ({}), the one in doubt is {retried}", answered.len(), ended.status);
        server.kill();
    }
    let server = arena.launch.start();
    let traffic = arena.traffic();
    arena.finish_well(server, traffic);
}

/// Publishes one job after another until an answer is lost.
fn publish_until_it_dies(arena: &Arena, first: u64) -> (Vec<(Item, String)>, Item) {
    let mut client = Client::with_patience(arena.launch.address, LIMIT);
    let mut answered = Vec::new();
    for n in first.. {
        let item = Item::keyed_in("plain", n);
        match arena.publish(&mut client, item) {
            Ok(published) => answered.push((item, published.id)),
            Err((0, _)) => return (answered, item),
            Err(problem) => panic!("a publish was refused: {problem:?}"),
        }
        assert!(answered.len() < 1000, "it should be dead by now");
    }
    unreachable!("numbers do not end");
}

/// Publishes everything again: what was answered is the same job, and what was lost is one job from now on.
fn retry(arena: &Arena, answered: &[(Item, String)], lost: Item) -> String {
    let mut client = arena.client();
    for (item, id) in answered {
        let again = arena.publish(&mut client, *item).unwrap();
        assert_eq!((&again.id, again.deduplicated), (id, true), "{item:?}");
    }
    let once = arena.publish(&mut client, lost).unwrap();
    let twice = arena.publish(&mut client, lost).unwrap();
    assert_eq!((&twice.id, twice.deduplicated), (&once.id, true), "{lost:?}");
    if once.deduplicated {
        format!("{}, from before", once.id)
    } else {
        format!("{}, made by the retry", once.id)
    }
}
