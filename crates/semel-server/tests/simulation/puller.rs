//! Workers that lease: most do their work in time, some ask for more of it, some come back when it is over.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_proof::dice::Dice;
use semel_proof::history::{Answer, Call, Say};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use crate::lanes::{LEASE, Lane};
use crate::line::{Line, Told};
use crate::package::{Package, lasting};
use crate::world::World;

/// A worker that leases.
pub(crate) struct Puller {
    world: Arc<World>,
    dice: Mutex<Dice>,
}

/// Leased jobs.
#[derive(Debug, Deserialize)]
struct Leased {
    jobs: Vec<Package>,
}

impl Puller {
    pub(crate) fn new(world: Arc<World>, number: u64) -> Arc<Self> {
        let dice = Mutex::new(world.dice(number));
        Arc::new(Self { world, dice })
    }

    fn within(&self, range: std::ops::RangeInclusive<u64>) -> u64 {
        self.dice.lock().unwrap().within(range)
    }

    async fn pause(&self, millis: std::ops::RangeInclusive<u64>) {
        sleep(Duration::from_millis(self.within(millis))).await;
    }

    /// Works until it crashes.
    pub(crate) async fn run(self: Arc<Self>) -> turmoil::Result {
        let mut line = Line::default();
        loop {
            for package in self.lease(&mut line).await {
                self.work(&mut line, &package).await;
            }
            self.pause(10..=100).await;
        }
    }

    async fn lease(&self, line: &mut Line) -> Vec<Package> {
        let queue = Lane::Pulls.queue();
        let open = self.world.journal.open(&Call::Lease { queue, duration: LEASE });
        let wish = json!({ "max": self.within(1..=4), "wait": 1, "leaseSeconds": LEASE.millis() / 1000 });
        match line.post("/v1/queues/pulls/lease", &wish).await {
            Told::Ok(body) => {
                let leased: Leased = serde_json::from_slice(&body).unwrap();
                open.ok(Answer::Leased(leased.jobs.iter().map(Package::delivered).collect()));
                return leased.jobs;
            }
            Told::Refused(code) => open.fail(&code),
            Told::Unknown(why) => open.unknown(&why),
        }
        Vec::new()
    }

    async fn work(&self, line: &mut Line, package: &Package) {
        let fate = if self.world.is_calm() { 0 } else { self.within(0..=99) };
        let say = match fate {
            0..=64 => Say::Ack,
            65..=72 => {
                self.pause(10..=400).await;
                package.extend(&self.world, line).await;
                Say::Ack
            }
            73..=82 => {
                // It stops past its lease, and then goes on as if nothing had happened.
                sleep(lasting(LEASE)).await;
                self.pause(1..=2000).await;
                Say::Ack
            }
            83..=90 => Say::Nack,
            91..=92 => Say::Reject,
            93..=97 => Say::Defer,
            // It forgets about it.
            _ => return,
        };
        self.pause(5..=300).await;
        let effect = if say == Say::Ack { self.world.ledger.run(package.id()) } else { "none" };
        package.settle(&self.world, line, say, effect).await;
    }
}
