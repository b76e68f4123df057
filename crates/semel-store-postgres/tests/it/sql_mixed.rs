//! Applications and nodes publish under the same keys: each recognises what the other has published.

use semel_core::key::Key;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::time::Millis;
use semel_store::{Command, Reply};

use crate::sql_app::{Shop, complete, queue};

#[derive(Debug, Clone, Copy)]
enum By {
    Application,
    Node,
}

const BOTH: [By; 2] = [By::Application, By::Node];

/// Publishes, and says which job it got and whether its payload is the first one's.
async fn publish(shop: &Shop, by: By, key: &str, payload: &str) -> (String, bool) {
    match by {
        By::Application => {
            let sql = "SELECT id, payload_matches FROM semel.publish('orders', $1::text, $2)";
            let row = shop.app().await.query_one(sql, &[&payload, &key]).await.unwrap();
            (row.get(0), row.get(1))
        }
        By::Node => {
            let payload = Payload::from_json(payload.to_owned()).unwrap();
            let draft = Draft::new(queue("orders"), payload).with_key(Key::try_from(key).unwrap());
            match shop.tell(Command::Publish(draft.check().unwrap())).await {
                Reply::Published(published) => (published.id.to_string(), published.payload_matches),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Completes every job, and strips what is kept of it.
async fn strip_all(shop: &Shop) {
    let app = shop.app().await;
    for delivery in shop.lease("orders").await {
        complete(&app, &delivery).await.unwrap();
    }
    let pruned = shop.tell(Command::Prune { limit: 100 }).await;
    assert_eq!(pruned, Reply::Pruned { dropped: 0, stripped: 2, more: false });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_told_from_a_collision_whoever_was_first() {
    let shop = Shop::open().await;
    shop.queue("orders", |config| config.retention.completed = Millis::ZERO).await;
    let mut firsts = Vec::new();
    for first in BOTH {
        let key = format!("{first:?}");
        let (id, _) = publish(&shop, first, &key, r#"{"a": 1, "b": 2}"#).await;
        firsts.push((key, id));
    }
    let (same, rewritten, other) = (r#"{"a": 1, "b": 2}"#, r#"{"b":2,"a":1.0}"#, r#"{"a": 1, "b": 3}"#);
    ask_again(&shop, &firsts, &[(same, true), (rewritten, true), (other, false)]).await;
    strip_all(&shop).await;
    // Only digests of the bytes are left.
    ask_again(&shop, &firsts, &[(same, true), (rewritten, false), (other, false)]).await;
}

/// Publishes every payload under every key again, by both, and checks whether it is taken for the first one's.
async fn ask_again(shop: &Shop, firsts: &[(String, String)], payloads: &[(&str, bool)]) {
    for (key, id) in firsts {
        for second in BOTH {
            for (payload, same) in payloads {
                let answer = publish(shop, second, key, payload).await;
                assert_eq!(answer, (id.clone(), *same), "{key} first, then {second:?}: {payload}");
            }
        }
    }
}
