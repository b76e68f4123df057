//! Roles of upkeep that one node has for all: which of them this node wants, and which it holds.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The roles of this node.
#[derive(Debug)]
pub(crate) struct Held {
    alone: bool,
    wanted: Mutex<Vec<&'static str>>,
    held: watch::Sender<Grant>,
}

/// Roles that were granted, and how long they surely are this node's.
#[derive(Debug, Clone, Default)]
struct Grant {
    roles: Vec<&'static str>,
    until: Option<Instant>,
}

impl Grant {
    fn covers(&self, role: &str) -> bool {
        self.until.is_some_and(|until| Instant::now() < until) && self.roles.contains(&role)
    }
}

impl Held {
    /// A node that is alone holds whatever it wants.
    pub(super) fn new(alone: bool) -> Self {
        Self { alone, wanted: Mutex::default(), held: watch::Sender::new(Grant::default()) }
    }

    /// Asks for a role from the next heartbeat on.
    pub(crate) fn want(&self, role: &'static str) {
        self.lock().push(role);
    }

    /// What was asked for.
    pub(super) fn wanted(&self) -> Vec<&'static str> {
        self.lock().clone()
    }

    /// Takes down what a heartbeat granted, for a span that counts from when it was sent: others count from when it came.
    pub(super) fn grant(&self, roles: Vec<&'static str>, sent: Instant, span: Duration) {
        self.held.send_replace(Grant { roles, until: Some(sent + span) });
    }

    /// Gives everything up.
    pub(super) fn give_up(&self) {
        self.held.send_replace(Grant::default());
    }

    /// Whether this node holds a role now.
    pub(crate) fn holds(&self, role: &str) -> bool {
        self.alone || self.held.borrow().covers(role)
    }

    /// Waits until this node holds a role.
    pub(crate) async fn until_held(&self, role: &str) {
        if !self.alone {
            // The sender lives as long as `self`, so this cannot fail.
            drop(self.held.subscribe().wait_for(|grant| grant.covers(role)).await);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<&'static str>> {
        self.wanted.lock().expect("no one panics while holding the wishes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_role_is_held_for_its_span_and_no_longer() {
        let span = Duration::from_secs(15);
        let held = Held::new(false);
        held.want("prune");
        assert_eq!(held.wanted(), ["prune"]);
        assert!(!held.holds("prune"));
        held.grant(vec!["prune"], Instant::now(), span);
        held.until_held("prune").await;
        assert!(held.holds("prune") && !held.holds("rescue"));
        tokio::time::advance(span).await;
        assert!(!held.holds("prune"), "no heartbeat came through");
        held.grant(vec!["prune"], Instant::now(), span);
        assert!(held.holds("prune"));
        held.give_up();
        assert!(!held.holds("prune"));
    }

    #[tokio::test]
    async fn a_node_that_is_alone_holds_everything() {
        let held = Held::new(true);
        assert!(held.holds("prune"));
        held.until_held("prune").await;
    }
}
