//! The server is killed, stopped and continued at random moments (faults 1 and 11), and once its data is taken away.

use std::time::Duration;

use rustix::process::Signal;
use semel_proof::checker::{Invariant, Verdict};
use semel_proof::dice::Dice;
use semel_proof::settings;

use crate::kit::arena::Arena;
use crate::kit::pause::pass;
use crate::kit::plan::Lane;

/// A restart may take this long, whatever the kill interrupted.
const RESTART_MAX: Duration = Duration::from_secs(5);

#[test]
fn heavy_server_kill_loop() {
    let rounds = settings::number("SEMEL_KILL_ROUNDS", 8);
    let seed = settings::seed();
    println!("server kill loop: {rounds} rounds, SEMEL_SEED={seed}");
    let arena = Arena::new(seed);
    let mut dice = Dice::new(seed);
    let mut server = arena.open();
    let traffic = arena.traffic();
    for round in 1..=rounds {
        let delay = dice.within(50..=500);
        pass(Duration::from_millis(delay));
        server.kill();
        server = arena.launch.start();
        println!(
            "round {round:3}: killed after {delay:3} ms, answers again in {:4} ms",
            server.took.as_millis()
        );
        assert!(server.took < RESTART_MAX, "seed {seed}, round {round}: {:?} to restart", server.took);
    }
    arena.finish_well(server, traffic);
}

/// Two leases long nobody is there: what was leased before is given to others, and the first worker's word no longer counts.
#[test]
fn heavy_server_stopped_for_two_leases() {
    let seed = settings::seed();
    let arena = Arena::new(seed);
    let server = arena.open();
    let traffic = arena.traffic();
    pass(Duration::from_secs(1));
    server.signal(Signal::STOP);
    // The workers' leases are of one or two seconds.
    pass(Duration::from_secs(4));
    server.signal(Signal::CONT);
    arena.finish_well(server, traffic);
}

/// The broken build of this driver: acknowledged work really is lost, and the checker must say so.
#[test]
fn heavy_server_that_lost_its_data_is_caught() {
    let arena = Arena::new(5);
    let server = arena.open();
    let traffic = arena.traffic();
    pass(Duration::from_millis(1500));
    server.kill();
    traffic.end();
    std::fs::remove_dir_all(&arena.data).unwrap();
    let server = arena.launch.start();
    Lane::ALL.into_iter().for_each(|lane| arena.put(&lane.queue(arena.endpoint.address)));
    assert_eq!(server.stop().status.code(), Some(0));
    let report = arena.judge(false);
    println!("{report}");
    assert_eq!(report.verdict(), Verdict::Broken, "{report}");
    assert!(report.breaks(Invariant::I1), "{report}");
}
