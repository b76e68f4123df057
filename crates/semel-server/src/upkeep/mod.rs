//! Upkeep: what only time brings about. One role per file, all on the same skeleton ([`role`]).
//!
//! Everything a role changes is a command like any other, through group commit. A role remembers nothing that matters:
//! what it has done is in the store, so a restart or a second node goes on where it stopped. On a shared store, what one node
//! can do for all is done by the one that holds the role (`peers`).

pub mod advice;
mod archive;
pub(crate) mod calendar;
mod cold;
mod duplicates;
mod prune;
mod replay_page;
pub(crate) mod replays;
mod rescue;
mod role;
pub(crate) mod schedules;
#[cfg(test)]
pub(crate) mod stage;
mod stats;

use std::sync::Arc;

use semel_core::queue::QueueConfig;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::role::{Role, tend};
use crate::news::Suspect;
use crate::service::Service;

/// Bytes of payloads that a role may have in hand at once while it walks along jobs.
const PAGE_BYTES: u32 = 32 * 1024 * 1024;

/// Most jobs on a page of a walk.
const PAGE_JOBS: u32 = 256;

/// The role that ends leases. Who has it also ends those of nodes that died.
pub(crate) const RESCUE: &str = rescue::Rescue::NAME;

/// The roles that run. They end when the service stops.
#[derive(Debug)]
pub struct Roles(Vec<(&'static str, JoinHandle<()>)>);

/// Starts every role.
pub fn start(service: &Arc<Service>, suspects: mpsc::Receiver<Suspect>) -> Roles {
    Roles(vec![
        run(service, rescue::Rescue::new(service.clone())),
        run(service, prune::Prune::new(service.clone())),
        run(service, schedules::Schedules::new(service.clone())),
        run(service, archive::Archive::new(service.clone())),
        run(service, replays::Replays::new(service.clone())),
        run(service, duplicates::Duplicates::new(service.clone(), suspects)),
        run(service, advice::Advice::new(service.clone())),
        run(service, stats::Stats::new(service.clone())),
    ])
}

fn run<R: Role>(service: &Arc<Service>, role: R) -> (&'static str, JoinHandle<()>) {
    if role.is_for_all_nodes() {
        service.peers.roles().want(R::NAME);
    }
    (R::NAME, tokio::spawn(tend(role, service.clone())))
}

impl Roles {
    /// Waits until every role has ended. Tell the service to stop before.
    pub async fn stop(self) {
        for (name, task) in self.0 {
            if let Err(error) = task.await {
                tracing::error!(role = name, %error, "a role of upkeep had ended before it was to");
            }
        }
    }
}

/// How many jobs of a queue to look at in one go, so that a page of the largest payloads still fits in memory.
pub(crate) fn page_of(config: &QueueConfig) -> u32 {
    (PAGE_BYTES / config.payload_limit.max(1)).clamp(1, PAGE_JOBS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_largest_payloads_fits() {
        let page = |payload_limit| page_of(&QueueConfig { payload_limit, ..QueueConfig::default() });
        assert_eq!(page(1), PAGE_JOBS);
        assert_eq!(page(256 * 1024), 128);
        assert_eq!(page(u32::MAX), 1);
    }

    #[tokio::test]
    async fn the_roles_end_when_the_service_stops() {
        let stage = stage::Stage::new().await;
        let (_suspects, judged) = mpsc::channel(1);
        let roles = start(&stage.service, judged);
        stage.stopper.stop();
        roles.stop().await;
    }
}
