//! A disk whose syncs fail, or are slow (faults 7 and 9).

use std::sync::Arc;
use std::time::Duration;

use semel_proof::disk::skip;
use semel_proof::injector;

use crate::kit::arena::Arena;
use crate::kit::http::Client;
use crate::kit::pause::until;
use crate::kit::plan::Item;

const LIMIT: Duration = Duration::from_secs(30);

/// After a failed sync nobody can say what the disk holds: that batch is in doubt, no write is taken, reads go on, and a
/// restart finds everything that was answered.
#[test]
fn heavy_server_after_a_failed_sync() {
    if let Err(why) = injector::available() {
        return skip("failed sync of a server", &why);
    }
    let arena = Arena::new(7);
    arena.open().kill();
    let command = injector::with_fault(&arena.launch.command(), "fdatasync", "fdatasync:error=EIO:when=20");
    let server = arena.launch.start_as(command);
    let mut client = arena.client();
    let mut answered = Vec::new();
    let (lost, problem) = (1..1000)
        .find_map(|n| {
            let item = Item::keyed_in("plain", n);
            match arena.publish(&mut client, item) {
                Ok(published) => {
                    answered.push((item, published.id));
                    None
                }
                Err(problem) => Some((item, problem)),
            }
        })
        .expect("a sync fails");
    println!("{} publishes were answered, then: {problem:?}", answered.len());
    assert_eq!(problem.0, 503, "{problem:?}");
    let refused = arena.publish(&mut client, Item::keyed_in("plain", 2000)).unwrap_err();
    assert_eq!(refused, (503, "store_failed".to_owned()));
    assert_eq!(client.get("/readyz").unwrap().status, 503);
    assert_eq!(client.get("/healthz").unwrap().status, 200);
    for (_, id) in &answered {
        assert_eq!(client.get(&format!("/v1/jobs/{id}")).unwrap().status, 200, "reads go on");
    }
    server.kill();
    let server = arena.launch.start();
    let mut client = arena.client();
    assert_eq!(client.get("/readyz").unwrap().status, 200);
    for (item, id) in &answered {
        assert_eq!(&arena.publish(&mut client, *item).unwrap().id, id);
    }
    let once = arena.publish(&mut client, lost).unwrap().id;
    assert_eq!(arena.publish(&mut client, lost).unwrap().id, once);
    let traffic = arena.traffic();
    arena.finish_well(server, traffic);
}

/// While the disk is slow only so much may wait; the others are told when to come back, and later everything is as before.
#[test]
fn heavy_server_on_a_slow_disk() {
    if let Err(why) = injector::available() {
        return skip("slow sync of a server", &why);
    }
    let arena = Arc::new(Arena::new(9));
    arena.open().kill();
    let command = arena.launch.clone().set("limits.waitingCommands=8").command();
    let slow = "fdatasync:delay_enter=300000:when=18..27";
    let server = arena.launch.start_as(injector::with_fault(&command, "fdatasync", slow));
    let crowd: Vec<_> = (0..48)
        .map(|number| {
            let arena = Arc::clone(&arena);
            std::thread::spawn(move || publish_a_dozen(&arena, number * 1000 + 1))
        })
        .collect();
    let shed: usize = crowd.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("a slow disk: {shed} publishes were told to come back");
    assert!(shed > 0, "48 clients, room for 8, and nobody was turned away");
    assert_eq!(arena.client().get("/readyz").unwrap().status, 200, "it recovers by itself");
    server.kill();
    let server = arena.launch.start();
    let traffic = arena.workers();
    arena.finish_well(server, traffic);
}

/// Publishes a dozen jobs, each until it is answered. Returns how often it was told to come back.
fn publish_a_dozen(arena: &Arena, first: u64) -> usize {
    let mut client = Client::with_patience(arena.launch.address, LIMIT);
    let mut shed = 0;
    for n in first..first + 12 {
        let item = Item::keyed_in("plain", n);
        until("a publish is answered", LIMIT, || match arena.publish(&mut client, item) {
            Ok(_) => Some(()),
            Err((503, _)) => {
                shed += 1;
                None
            }
            Err(problem) => panic!("not what an overload says: {problem:?}"),
        });
    }
    shed
}
