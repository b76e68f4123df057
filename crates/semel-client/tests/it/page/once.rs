use semel_client::ledger::Once;
use semel_client::{Delivery, Handler};
use semel_ledger::store::Store;
use semel_ledger::{Call, Failure, Intent, Ledger};

pub fn charging<S: Store>(ledger: Ledger<S>) -> impl Handler {
    Once::new(move |delivery: Delivery, call: Call| {
        let ledger = ledger.clone();
        async move { ledger.intent(&call).run(|intent| charge_card(delivery, intent)).await }
    })
}

async fn charge_card(delivery: Delivery, intent: Intent) -> Result<String, Failure<serde_json::Error>> {
    let cents: u64 = delivery.payload().map_err(Failure::not_applied)?;
    // The same key on every attempt: the provider answers a second one with the first charge.
    Ok(format!("{cents} cents charged under {}", intent.downstream_key()))
}
