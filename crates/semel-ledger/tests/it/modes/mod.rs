//! Every mode on every store keeps its promise: delivered twice, to a crowd, killed at every boundary.

mod broken;
pub(crate) mod durable;
mod provider;
pub(crate) mod transactional;

use std::time::Duration;

use semel_ledger::handler::{Disposition, Handler, Job};
use semel_ledger::testkit::Delivery;
use semel_ledger::{Call, Error, Verdict};
use serde::Serialize;

pub(crate) use provider::Provider;

/// Short, because after every kill somebody waits for its end; long enough for a busy machine to renew it.
const LEASE: Duration = Duration::from_millis(100);

/// Handles a delivery of the testkit as a worker would.
pub(crate) async fn handled<T, E, F, Fut>(delivery: &Delivery, work: F) -> Disposition
where
    T: Serialize,
    E: std::fmt::Display,
    F: FnOnce(Call) -> Fut,
    Fut: Future<Output = Result<Verdict<T>, Error<E>>>,
{
    let job = Job { key: Some(delivery.key.as_str()), token: Some(delivery.token), payload: b"{}" };
    Handler::new().handle(&job, work).await
}
