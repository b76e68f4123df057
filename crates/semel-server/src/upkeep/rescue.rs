//! Ends leases that ran out, so that their jobs go to somebody else.

use std::sync::Arc;

use semel_core::time::Millis;
use semel_store::{Command, Reply};

use super::role::{Next, Role, Trouble};
use crate::service::Service;

/// How many leases are ended in one commit. Others are in the same commit and wait for it.
const SLICE: u32 = 256;

/// Longest wait before the leases are looked at again. The shortest lease is as long, so one that was handed out while this
/// role waited is ended at most this much late.
const LOOK_AGAIN: Millis = Millis::from_secs(1);

/// The same on a store that is shared, where every look is a statement: while leases are out, and while none is. A lease
/// that is shorter may be ended this much late.
const LOOK_AGAIN_SHARED: Millis = Millis::from_secs(2);
const LOOK_AGAIN_IDLE: Millis = Millis::from_secs(5);

/// The shortest wait after leases were ended: deadlines that lie close together are ended together.
const GATHER: Millis = Millis::from_millis(10);

/// Ends leases that ran out.
pub(super) struct Rescue {
    service: Arc<Service>,
}

impl Rescue {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service }
    }
}

impl Role for Rescue {
    const NAME: &'static str = "rescue";

    fn is_for_all_nodes(&self) -> bool {
        true
    }

    async fn run_once(&mut self) -> Result<Next, Trouble> {
        let now = self.service.store.now();
        let (busy, idle) = match self.service.peers.may_be_there() {
            true => (LOOK_AGAIN_SHARED, LOOK_AGAIN_IDLE),
            false => (LOOK_AGAIN, LOOK_AGAIN),
        };
        match self.service.store.next_expiry().await? {
            Some(at) if at <= now => {}
            Some(at) => return Ok(Next::At(at.min(now.plus(busy)))),
            None => return Ok(Next::At(now.plus(idle))),
        }
        match self.service.commit.submit(Command::Rescue { limit: SLICE }).await? {
            Reply::Rescued { more: true, .. } => Ok(Next::Soon),
            Reply::Rescued { more: false, .. } => Ok(Next::In(GATHER)),
            other => Err(Trouble::wrong_reply("rescue", &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_core::lifecycle::State;
    use semel_core::queue::QueueConfig;

    use super::super::stage::Stage;
    use super::*;

    #[tokio::test]
    async fn a_lease_that_ran_out_is_ended_when_it_did() {
        let stage = Stage::new().await;
        stage.queue("q", QueueConfig::default()).await;
        let mut role = Rescue::new(stage.service.clone());
        let start = stage.now();
        assert_eq!(role.run_once().await.unwrap(), Next::At(start.plus(LOOK_AGAIN)), "nothing is out");

        let id = stage.publish("q", None).await;
        stage.lease("q", Some(Millis::from_millis(1500))).await;
        assert_eq!(role.run_once().await.unwrap(), Next::At(start.plus(LOOK_AGAIN)), "the wait is capped");
        stage.alarm.advance(Millis::from_millis(1000));
        assert_eq!(role.run_once().await.unwrap(), Next::At(start.plus(Millis::from_millis(1500))));
        assert_eq!(stage.job(id).await.progress.state, State::Processing);
        stage.alarm.advance(Millis::from_millis(500));
        assert_eq!(role.run_once().await.unwrap(), Next::In(GATHER));
        assert_eq!(stage.job(id).await.progress.state, State::Pending);
    }

    #[tokio::test]
    async fn many_are_ended_slice_by_slice() {
        let stage = Stage::new().await;
        stage.queue("q", QueueConfig::default()).await;
        for _ in 0..=SLICE {
            stage.publish("q", None).await;
            stage.lease("q", Some(Millis::from_secs(1))).await;
        }
        stage.alarm.advance(Millis::from_secs(1));
        let mut role = Rescue::new(stage.service.clone());
        assert_eq!(role.run_once().await.unwrap(), Next::Soon);
        assert_eq!(role.run_once().await.unwrap(), Next::In(GATHER));
        assert_eq!(stage.service.store.next_expiry().await.unwrap(), None);
    }
}
