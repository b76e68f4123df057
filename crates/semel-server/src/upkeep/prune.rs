//! Looks at finished jobs, a slice at a time, and drops what its retention no longer covers.

use std::sync::Arc;

use semel_core::time::Millis;
use semel_store::{Command, Reply};

use super::role::{Next, Role, Trouble};
use crate::service::Service;

/// How many finished jobs one commit looks at. Publishes and settles are in the same commit and wait for it.
const SLICE: u32 = 512;

/// The wait when a slice found something to drop. A server that finishes ten thousand jobs a second must also drop as
/// many, and this allows for twice that.
const WHILE_DROPPING: Millis = Millis::from_millis(20);

/// The wait while a pass has more to look at but finds nothing.
const WHILE_LOOKING: Millis = Millis::from_secs(1);

/// The wait between two passes. Retention is counted in hours.
const BETWEEN_PASSES: Millis = Millis::from_secs(30);

/// Drops what its retention no longer covers.
pub(super) struct Prune {
    service: Arc<Service>,
}

impl Prune {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service }
    }
}

impl Role for Prune {
    const NAME: &'static str = "prune";

    fn is_for_all_nodes(&self) -> bool {
        true
    }

    async fn run_once(&mut self) -> Result<Next, Trouble> {
        match self.service.commit.submit(Command::Prune { limit: SLICE }).await? {
            Reply::Pruned { more: false, .. } => Ok(Next::In(BETWEEN_PASSES)),
            Reply::Pruned { dropped: 0, stripped: 0, .. } => Ok(Next::In(WHILE_LOOKING)),
            Reply::Pruned { .. } => Ok(Next::In(WHILE_DROPPING)),
            other => Err(Trouble::wrong_reply("prune", &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_core::queue::{QueueConfig, Retention};

    use super::super::stage::Stage;
    use super::*;

    #[tokio::test]
    async fn a_dead_letter_goes_when_its_retention_is_over() {
        let stage = Stage::new().await;
        let retention = Retention { dead: Millis::from_secs(100), ..Retention::default() };
        stage.queue("q", QueueConfig { retention, ..QueueConfig::default() }).await;
        let id = stage.dead("q", None, "boom").await;
        let mut role = Prune::new(stage.service.clone());
        assert_eq!(role.run_once().await.unwrap(), Next::In(BETWEEN_PASSES));
        assert!(stage.service.store.job(id).await.unwrap().is_some());
        stage.alarm.advance(Millis::from_secs(101));
        assert_eq!(role.run_once().await.unwrap(), Next::In(BETWEEN_PASSES));
        assert_eq!(stage.service.store.job(id).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_pass_that_drops_much_goes_on_soon() {
        let stage = Stage::new().await;
        let retention = Retention { dead: Millis::ZERO, ..Retention::default() };
        stage.queue("q", QueueConfig { retention, ..QueueConfig::default() }).await;
        for _ in 0..=SLICE {
            stage.dead("q", None, "boom").await;
        }
        stage.alarm.advance(Millis::from_secs(1));
        let mut role = Prune::new(stage.service.clone());
        assert_eq!(role.run_once().await.unwrap(), Next::In(WHILE_DROPPING));
        assert_eq!(role.run_once().await.unwrap(), Next::In(BETWEEN_PASSES));
    }
}
