//! What works on deliveries.

use crate::{Delivery, Outcome};

/// Works on deliveries, by pull and by webhook alike. Every `async fn(Delivery)` is one that returns something which
/// says how it went: [`Outcome`], `()`, or a `Result` of those.
///
/// It may be called twice for one job: a delivery that was not settled in time is delivered again. What it does to the
/// world happens once if it is recorded together with the effect, which is what the ledger is for.
pub trait Handler: Send + Sync + 'static {
    /// Works on one delivery.
    fn handle(&self, delivery: Delivery) -> impl Future<Output = Outcome> + Send;
}

impl<F, R, O> Handler for F
where
    F: Fn(Delivery) -> R + Send + Sync + 'static,
    R: Future<Output = O> + Send,
    O: Into<Outcome>,
{
    async fn handle(&self, delivery: Delivery) -> Outcome {
        self(delivery).await.into()
    }
}
