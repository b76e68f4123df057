//! What goes wrong, and when: decided by dice, undone after a while.

use std::sync::Arc;
use std::time::Duration;

use semel_proof::dice::Dice;
use turmoil::Sim;

use crate::world::World;

/// The hosts besides the server.
const OTHERS: [&str; 5] = ["worker", "puller-1", "puller-2", "publisher-1", "publisher-2"];

/// How long a message takes at most when all is well.
pub(crate) const USUAL_LATENCY: Duration = Duration::from_millis(50);

/// Troubles of one simulation.
pub(crate) struct Faults {
    world: Arc<World>,
    dice: Dice,
    next: Duration,
    active: Vec<Fault>,
    log: Vec<String>,
    crashes: u64,
}

/// One trouble, and when it ends.
#[derive(Debug, Clone, Copy)]
struct Fault {
    kind: Kind,
    host: &'static str,
    until: Duration,
}

/// What can go wrong with a host, or with the link between it and the server.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Every message between them is lost.
    Partition,
    /// What it sends is lost.
    Mute,
    /// What it is sent is lost.
    Deaf,
    /// Messages between them wait.
    Hold,
    /// Messages between them take long.
    Slow(Duration),
    /// It is down.
    Down,
}

impl Faults {
    pub(crate) fn new(world: Arc<World>) -> Self {
        let dice = world.dice(0);
        Self { world, dice, next: Duration::ZERO, active: Vec::new(), log: Vec::new(), crashes: 0 }
    }

    /// Begins and ends what it is time for.
    pub(crate) fn turn(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        while let Some(over) = self.active.iter().position(|fault| fault.until <= now) {
            let fault = self.active.remove(over);
            self.end(sim, fault);
        }
        if self.next <= now {
            self.next = now + self.millis(100..=900);
            self.begin(sim);
        }
    }

    /// Ends everything.
    pub(crate) fn heal(&mut self, sim: &mut Sim<'_>) {
        for fault in std::mem::take(&mut self.active) {
            self.end(sim, fault);
        }
    }

    /// What went wrong, with times.
    pub(crate) fn log(&self) -> &[String] {
        &self.log
    }

    /// How often a host crashed.
    pub(crate) fn crashes(&self) -> u64 {
        self.crashes
    }

    fn millis(&mut self, range: std::ops::RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.dice.within(range))
    }

    /// One trouble at a time for a host; the server can only be down.
    fn begin(&mut self, sim: &mut Sim<'_>) {
        let kind = match self.dice.below(100) {
            0..=19 => Kind::Partition,
            20..=29 => Kind::Mute,
            30..=39 => Kind::Deaf,
            40..=54 => Kind::Hold,
            55..=64 => Kind::Slow(self.millis(200..=1500)),
            _ => Kind::Down,
        };
        let server = matches!(kind, Kind::Down) && self.dice.chance(50);
        let host = if server { "server" } else { OTHERS[self.dice.index(OTHERS.len())] };
        let until = sim.elapsed() + self.millis(50..=3000);
        if self.active.iter().all(|fault| fault.host != host) {
            self.inflict(sim, Fault { kind, host, until });
        }
    }

    fn inflict(&mut self, sim: &mut Sim<'_>, fault: Fault) {
        let host = fault.host;
        match fault.kind {
            Kind::Partition => sim.partition("server", host),
            Kind::Mute => sim.partition_oneway(host, "server"),
            Kind::Deaf => sim.partition_oneway("server", host),
            Kind::Hold => sim.hold("server", host),
            Kind::Slow(latency) => sim.set_link_max_message_latency("server", host, latency),
            Kind::Down => {
                sim.crash(host);
                self.crashes += 1;
                if host == "server" {
                    self.world.store.crash();
                }
            }
        }
        self.log.push(format!("{:?} {fault:?}", sim.elapsed()));
        self.active.push(fault);
    }

    fn end(&mut self, sim: &mut Sim<'_>, Fault { kind, host, .. }: Fault) {
        match kind {
            Kind::Partition => sim.repair("server", host),
            Kind::Mute => sim.repair_oneway(host, "server"),
            Kind::Deaf => sim.repair_oneway("server", host),
            Kind::Hold => sim.release("server", host),
            Kind::Slow(_) => sim.set_link_max_message_latency("server", host, USUAL_LATENCY),
            Kind::Down => sim.bounce(host),
        }
        self.log.push(format!("{:?} {host} is well again", sim.elapsed()));
    }
}
