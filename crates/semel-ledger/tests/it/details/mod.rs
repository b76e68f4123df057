//! What each mode does when something does not go as it should. Stores are told apart elsewhere; this is one in memory.

mod failures;
mod leases;
mod seen;
mod steps;
mod store;
mod told;

use semel_ledger::store::Store;
use semel_ledger::{Builder, Call, Failure, Intent, Ledger};

use store::Moody;

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

fn builder<S: Store>(store: S) -> Builder<S> {
    Ledger::builder(store, "billing")
}

fn moody() -> (Moody, Ledger<Moody>) {
    let store = Moody::default();
    (store.clone(), builder(store).build().unwrap())
}

fn call() -> Call {
    Call::new("order-9482").unwrap()
}

type Effect = Result<String, Failure<String>>;

async fn charge(_: Intent) -> Effect {
    Ok("ch_1".to_owned())
}

async fn time_out(_: Intent) -> Effect {
    Err("timed out".to_owned())?
}

async fn refused(_: Intent) -> Effect {
    Err(Failure::not_applied("card declined".to_owned()))
}
