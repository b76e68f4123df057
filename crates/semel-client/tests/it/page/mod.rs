//! The examples of `docs/client.md`: each is a file here, which is shown there as it is, and run below.

#![allow(unreachable_pub, reason = "a page shows what an application would make public")]

mod once;
mod publish;
mod webhook;
mod work;

use semel_client::worker::Worker;
use semel_client::{Effect, Publish, State};
use semel_ledger::{Ledger, Memory};
use tokio::sync::oneshot;

use crate::pushed::Hook;
use crate::world::{World, within};

const PAGE: &str = include_str!("../../../../../docs/client.md");

#[test]
fn the_page_shows_the_files_that_are_run() {
    let mut shown = PAGE.split("```rust\n").skip(1).map(|block| block.split("```").next().unwrap());
    let run = [
        include_str!("publish.rs"),
        include_str!("work.rs"),
        include_str!("webhook.rs"),
        include_str!("once.rs"),
    ];
    for file in run {
        assert_eq!(shown.next(), Some(file), "docs/client.md and its tests differ");
    }
    assert_eq!(shown.next(), None, "docs/client.md shows what no test runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn published_twice_is_published_once() {
    let world = World::start().await;
    let client = publish::connect(&format!("http://{}", world.address), "sml_unused").unwrap();
    let first = publish::publish_order(&client, 17).await.unwrap();
    let again = publish::publish_order(&client, 17).await.unwrap();
    assert_eq!((first.deduplicated, again.deduplicated), (false, true));
    assert_eq!(again.id, first.id);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_what_it_can_read_and_rejects_the_rest() {
    let world = World::start().await;
    let client = world.client();
    let good = client.publish(&Publish::new("thumbnails", "cat").unwrap()).await.unwrap().id;
    let bad = client.publish(&Publish::new("thumbnails", &17).unwrap()).await.unwrap().id;
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = tokio::spawn(async move { work::work(&client, async { drop(stopped.await) }).await });
    let done = world.until(&good, State::Completed).await;
    assert_eq!(done.result::<String>().unwrap().as_deref(), Some("cat.thumbnail"));
    world.until(&bad, State::Dead).await;
    drop(stop);
    let tally = within(worker).await.unwrap().unwrap();
    assert_eq!((tally.done, tally.failed), (1, 1));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_answers_with_its_result() {
    let world = World::start().await;
    let hook = Hook::of(&world, |secret| webhook::webhook("whsec_b3RoZXI=", secret)).await;
    let job = world.client().publish(&Publish::new("q", "Once").unwrap()).await.unwrap().id;
    let done = world.until(&job, State::Completed).await;
    assert_eq!(done.result::<String>().unwrap().as_deref(), Some("once"));
    drop(hook);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_comes_with_its_receipt() {
    let world = World::start().await;
    let client = world.client();
    let job = client.publish(&Publish::new("q", &1000).unwrap().key("order-17")).await.unwrap().id;
    let ledger = Ledger::builder(Memory::new(), "billing").build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::new(&client, "q").run(once::charging(ledger), async { drop(stopped.await) });
    let (tally, done) = tokio::join!(within(worker), async {
        let done = world.until(&job, State::Completed).await;
        drop(stop);
        done
    });
    assert_eq!((tally.unwrap().done, done.effect.unwrap().outcome), (1, Effect::Applied));
    world.end().await;
}
