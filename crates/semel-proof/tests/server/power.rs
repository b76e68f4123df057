//! The power goes while the server is under load: what it had answered is on the disk (fault 3).

use std::io;
use std::path::Path;
use std::time::Duration;

use semel_proof::dice::Dice;
use semel_proof::disk::{Disk, skip};
use semel_proof::settings;

use crate::kit::arena::Arena;
use crate::kit::pause::pass;

fn disk(home: &Path) -> io::Result<Disk> {
    if !rustix::process::geteuid().is_root() {
        return Err(io::Error::other("needs root to mount ext4 in a file and to cut its power"));
    }
    let mut disk = Disk::ext4(home, 256)?;
    // A kernel that mounts it but does not know the cut would turn this test into a kill loop.
    disk.power_cycle()?;
    Ok(disk)
}

#[test]
fn heavy_server_power_cut() {
    let rounds = settings::number("SEMEL_POWER_ROUNDS", 3);
    let seed = settings::seed();
    let home = tempfile::tempdir().unwrap();
    let mut disk = match disk(home.path()) {
        Ok(disk) => disk,
        Err(why) => return skip("power cut of a server", &why),
    };
    println!("power cut of a server: {rounds} rounds, SEMEL_SEED={seed}");
    let arena = Arena::at(&disk.path().join("store"), seed);
    let mut dice = Dice::new(seed);
    let mut server = arena.open();
    let traffic = arena.traffic();
    for round in 1..=rounds {
        let delay = dice.within(200..=700);
        pass(Duration::from_millis(delay));
        server.kill();
        disk.power_cycle().unwrap();
        server = arena.launch.start();
        println!(
            "round {round:2}: cut after {delay:3} ms, answers again in {:4} ms",
            server.took.as_millis()
        );
    }
    arena.finish_well(server, traffic);
}
