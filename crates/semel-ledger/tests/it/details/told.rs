//! What the ledger tells `tracing`, and what it cannot be built with.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_ledger::{BuildError, KeyError, Memory};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{HOUR, builder, call, charge, refused};

/// The outcomes of all events, with their keys.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields {
    key: String,
    outcome: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "key" => self.key = value.to_owned(),
            "outcome" => self.outcome = value.to_owned(),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "semel_ledger"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push(format!("{} {}", fields.key, fields.outcome));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn every_verdict_is_an_event() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let ledger = builder(Memory::new()).build().unwrap();
    assert!(ledger.intent(&call()).run(refused).await.is_err());
    assert!(ledger.intent(&call()).run(charge).await.unwrap().is_applied());
    assert!(ledger.intent(&call()).run(charge).await.unwrap().is_replayed());
    let heard = listener.0.lock().unwrap().clone();
    assert_eq!(heard, ["order-9482 failed", "order-9482 applied", "order-9482 replayed"]);
}

#[test]
fn a_ledger_that_could_not_keep_its_promises_is_not_built() {
    let refused = |error: Result<_, BuildError>| error.map(drop).unwrap_err();
    let short = Duration::from_millis(10);
    assert_eq!(refused(builder(Memory::new()).lease(short).build()), BuildError::Lease(short));
    let ttl = refused(builder(Memory::new()).ttl(HOUR).lease(HOUR).build());
    assert_eq!(ttl, BuildError::Ttl { ttl: HOUR, lease: HOUR });
    let window = refused(builder(Memory::new()).provider_window(short).build());
    assert!(matches!(window, BuildError::Window { .. }), "{window}");
    let nameless = refused(semel_ledger::Ledger::builder(Memory::new(), "").build());
    assert_eq!(nameless, BuildError::Consumer(KeyError::Missing("consumer")));
}
