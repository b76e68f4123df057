//! Being seen: a heartbeat every few seconds, which also takes roles and tells who died.

use std::sync::Arc;
use std::time::Duration;

use semel_store::StoreError;
use semel_store::shared::{Beat, NodeId, ROLE_SPAN, Shared};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::service::Service;
use crate::stop::Stop;
use crate::upkeep::RESCUE;

/// Beats until it is told to stop, which is after everything else has ended.
pub(super) async fn run(service: Arc<Service>, shared: Arc<dyn Shared>, stop: Stop) {
    let mut heart = Heart { service, shared, failing: false, burials: JoinSet::new() };
    while !stop.is_stopped() {
        let ending = heart.service.stop.is_stopped();
        heart.beat(ending).await;
        tokio::select! {
            () = stop.stopped() => {}
            () = tokio::time::sleep(heart.service.options.pace.beat) => {}
            // Upkeep ends with the service; others need not wait until its roles run out.
            () = heart.service.stop.stopped(), if !ending => heart.leave_roles().await,
        }
    }
    while heart.burials.join_next().await.is_some() {}
    // Once more: the last heartbeat may have been on its way when everything was told to stop.
    heart.leave_roles().await;
}

struct Heart {
    service: Arc<Service>,
    shared: Arc<dyn Shared>,
    /// Whether the last heartbeat did not get through.
    failing: bool,
    /// What is being done about nodes that died.
    burials: JoinSet<()>,
}

impl Heart {
    async fn beat(&mut self, ending: bool) {
        let held = self.service.peers.roles();
        let wanted = if ending { Vec::new() } else { held.wanted() };
        let sent = Instant::now();
        match self.shared.beat(&wanted).await {
            Ok(Beat { others, lost, held: granted }) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the heartbeat gets through again");
                }
                self.service.news.outbox.set_open(others > 0);
                let rescues = granted.contains(&RESCUE);
                held.grant(granted, sent, Duration::from_millis(ROLE_SPAN.millis()));
                if rescues {
                    self.bury(lost);
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Told once: a database that is away for an hour is not news every five seconds.
    fn failed(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(%error, "the heartbeat does not get through: other nodes will take this one to be dead");
        }
    }

    /// Whoever ends leases that ran out also ends those of the dead. It may have to wait for others, and a heart must not. What
    /// does not work now is in the next heartbeat's answer again.
    fn bury(&mut self, lost: Vec<NodeId>) {
        while self.burials.try_join_next().is_some() {}
        if !lost.is_empty() && self.burials.is_empty() {
            self.burials.spawn(take_back(self.service.clone(), self.shared.clone(), lost));
        }
    }

    async fn leave_roles(&self) {
        self.service.peers.roles().give_up();
        if let Err(error) = self.shared.leave_roles().await {
            tracing::debug!(%error, "the roles could not be left; they run out");
        }
    }
}

async fn take_back(service: Arc<Service>, shared: Arc<dyn Shared>, lost: Vec<NodeId>) {
    for node in lost {
        match shared.take_back(node).await {
            Ok(queues) => {
                tracing::warn!(%node, queues = queues.len(), "a node is gone; what it was delivering is delivered again");
                // How many jobs each has back is not known.
                queues.iter().for_each(|queue| service.news.ready(queue, u32::MAX));
            }
            Err(error) => {
                tracing::warn!(%node, %error, "the leases of a node that is gone could not be taken back yet");
            }
        }
    }
}
