//! Keeps gauges fresh, and what is known of API keys on both sides of memory.

use std::sync::Arc;

use semel_core::time::Millis;
use semel_store::Command;
use semel_store::group_commit::CommitError;

use super::role::{Next, Role, Trouble};
use crate::api::keyring::Grant;
use crate::service::Service;

/// How old a gauge may be. Scrapers come every ten to thirty seconds.
const EVERY: Millis = Millis::from_secs(10);

/// Keeps gauges and API keys fresh.
pub(super) struct Stats {
    service: Arc<Service>,
}

impl Stats {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service }
    }

    /// Writes down when keys were last used. One that was taken away meanwhile stays away.
    async fn touch_keys(&self) -> Result<(), Trouble> {
        let used = self.service.keyring.used();
        let touch =
            |(grant, at): &(Arc<Grant>, _)| Command::TouchApiKey { id: grant.record.id.clone(), at: *at };
        let outcomes = self.service.commit.submit_all(used.iter().map(touch).collect()).await;
        for ((grant, at), outcome) in used.iter().zip(outcomes) {
            match outcome {
                Ok(_) | Err(CommitError::Refused(_)) => grant.told(*at),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Role for Stats {
    const NAME: &'static str = "stats";

    fn is_for_all_nodes(&self) -> bool {
        false
    }

    async fn run_once(&mut self) -> Result<Next, Trouble> {
        self.service.take_stock().await?;
        self.touch_keys().await?;
        // On a shared store another node may have made or taken away a key.
        self.service.keyring.reload(self.service.store.as_ref()).await?;
        Ok(Next::In(EVERY))
    }
}

#[cfg(test)]
mod tests {
    use semel_core::records::Scope;

    use super::super::stage::{START, Stage};
    use super::*;
    use crate::service::{AuthMode, Options};

    async fn stage_with_key() -> Stage {
        let stage = Stage::with(Options { auth: AuthMode::Keys, ..Options::default() }).await;
        stage.grant("secret", vec![Scope::Read], "*").await;
        stage
    }

    #[tokio::test]
    async fn a_key_that_another_node_made_is_known_and_its_use_is_written_down() {
        let stage = stage_with_key().await;
        let keyring = &stage.service.keyring;
        assert!(keyring.find("secret", stage.now()).is_none());
        let mut role = Stats::new(stage.service.clone());
        assert_eq!(role.run_once().await.unwrap(), Next::In(EVERY));
        assert!(keyring.find("secret", stage.now()).is_some());
        role.run_once().await.unwrap();
        let stored = stage.service.store.api_keys().await.unwrap();
        assert_eq!(stored[0].last_used_at, Some(START));
    }

    #[tokio::test]
    async fn a_key_that_was_taken_away_stays_away() {
        let stage = stage_with_key().await;
        let mut role = Stats::new(stage.service.clone());
        role.run_once().await.unwrap();
        stage.service.keyring.find("secret", stage.now()).unwrap();
        stage.submit(Command::DeleteApiKey("secret".into())).await;
        role.run_once().await.unwrap();
        assert_eq!(stage.service.store.api_keys().await.unwrap(), []);
        assert!(stage.service.keyring.find("secret", stage.now()).is_none());
    }
}
