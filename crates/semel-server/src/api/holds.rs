//! Counting the holds that workers ask for with a defer. Those that a webhook's answer asks for are counted where it is read.

use semel_core::outcome::{DeferScope, Outcome};
use semel_store::{Command, Reply};

use crate::service::Service;

/// What a command asks to wait, if it is a defer: the inner `None` leaves it to the queue.
pub(super) fn asked(command: &Command) -> Option<Option<DeferScope>> {
    match command {
        Command::Settle(settle) => match settle.outcome() {
            Outcome::Backpressure { scope, .. } => Some(*scope),
            _ => None,
        },
        _ => None,
    }
}

/// Counts a hold, if that is what came of the defer. A repeat was counted before.
pub(super) async fn count(service: &Service, asked: Option<Option<DeferScope>>, reply: &Reply) {
    let (Some(scope), Reply::Settled { queue, repeated: false, .. }) = (asked, reply) else { return };
    let scope = match scope {
        Some(scope) => Some(scope),
        // A queue that cannot be looked up now goes uncounted: the defer itself has been answered for.
        None => service.store.queue(queue).await.ok().flatten().map(|record| record.config.defer_scope),
    };
    if scope == Some(DeferScope::Queue) {
        service.metrics.held(queue);
    }
}
