//! Pruning beside others who have rows in hand.

use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::time::Millis;
use semel_store::conformance::Harness as _;
use semel_store::{Command, Reply, Store};

use crate::harness::{Postgres, connect, runtime};

fn queue() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

async fn tell(store: &dyn Store, command: Command) -> Reply {
    store.apply(vec![command]).await.expect("nobody is waited for").pop().unwrap().unwrap()
}

async fn publish_and_cancel(store: &dyn Store, key: &str) {
    let draft = Draft::new(queue(), Payload::from_json("1").unwrap()).with_key(key.try_into().unwrap());
    let Reply::Published(published) = tell(store, Command::Publish(draft.check().unwrap())).await else {
        panic!("no answer to a publish")
    };
    assert_eq!(tell(store, Command::Cancel(published.id)).await, Reply::Done);
}

#[test]
fn a_key_that_an_application_holds_in_its_own_transaction_is_left_for_the_next_time() {
    let harness = Postgres::new();
    runtime().block_on(async {
        let store = &*harness.store();
        tell(store, Command::PutQueue { name: queue(), config: Box::default() }).await;
        publish_and_cancel(store, "held").await;
        publish_and_cancel(store, "free").await;
        harness.advance(Millis::from_days(365));
        let app = connect(harness.url()).await;
        app.batch_execute("BEGIN; SELECT FROM semel.key WHERE key = 'held' FOR UPDATE").await.unwrap();
        let pruned = Reply::Pruned { dropped: 1, stripped: 0, more: false };
        assert_eq!(tell(store, Command::Prune { limit: 10 }).await, pruned);
        let nothing = Reply::Pruned { dropped: 0, stripped: 0, more: false };
        assert_eq!(tell(store, Command::Prune { limit: 10 }).await, nothing);
        app.batch_execute("COMMIT").await.unwrap();
        assert_eq!(tell(store, Command::Prune { limit: 10 }).await, pruned);
    });
}
