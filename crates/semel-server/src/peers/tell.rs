//! Telling: what happened here is sent to the others, gathered for a moment.

use std::sync::Arc;

use semel_store::shared::Shared;

use crate::service::Service;
use crate::stop::Stop;

/// Tells until it is told to stop, and then what is left.
pub(super) async fn run(service: Arc<Service>, shared: Arc<dyn Shared>, stop: Stop) {
    let outbox = &service.news.outbox;
    while !stop.is_stopped() {
        tokio::select! {
            () = stop.stopped() => break,
            () = outbox.filled() => {}
        }
        send(&service, shared.as_ref()).await;
        tokio::select! {
            () = stop.stopped() => {}
            () = tokio::time::sleep(service.options.pace.gather) => {}
        }
    }
    // Deliveries that were put back when this node ended are for the others to take.
    send(&service, shared.as_ref()).await;
}

/// What cannot be told is found by the others' sweeps.
async fn send(service: &Service, shared: &dyn Shared) {
    let wakes = service.news.outbox.take();
    if !wakes.is_empty()
        && let Err(error) = shared.tell(wakes).await
    {
        tracing::debug!(%error, "the other nodes could not be told");
    }
}
