//! Handlers under a ledger: what the queue hears of its verdicts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel_client::ledger::Once;
use semel_client::worker::{Tally, Worker};
use semel_client::{Effect, Handler, Publish, State};
use semel_cluster::Proxy;
use semel_ledger::{Call, Error, Failure, Ledger, Memory};
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::world::{World, until, within};

/// A payment provider: counts charges, and makes each wait until it may go on.
#[derive(Clone)]
struct Provider {
    charges: Arc<AtomicU32>,
    go: Arc<Semaphore>,
}

impl Provider {
    fn new() -> Self {
        Self { charges: Arc::default(), go: Arc::new(Semaphore::new(0)) }
    }

    async fn charge(&self) -> Result<u32, Failure<String>> {
        let charge = self.charges.fetch_add(1, Ordering::SeqCst) + 1;
        self.go.acquire().await.unwrap().forget();
        Ok(charge)
    }

    fn charges(&self) -> u32 {
        self.charges.load(Ordering::SeqCst)
    }
}

fn ledger() -> Ledger<Memory> {
    // Its claim ends soon after its worker's, and is renewed as long as the worker lives.
    Ledger::builder(Memory::new(), "billing").lease(Duration::from_millis(200)).build().unwrap()
}

/// Charges once per key, by an intent.
fn charging(ledger: &Ledger<Memory>, provider: &Provider) -> impl Handler {
    let (ledger, provider) = (ledger.clone(), provider.clone());
    Once::new(move |_, call: Call| {
        let (ledger, provider) = (ledger.clone(), provider.clone());
        async move { ledger.intent(&call).run(|_| async move { provider.charge().await }).await }
    })
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Tally>,
}

impl Running {
    fn start(worker: Worker, handler: impl Handler) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let run = async move { worker.run(handler, async { drop(stopped.await) }).await.unwrap() };
        Self { stop, task: tokio::spawn(run) }
    }

    async fn stop(self) -> Tally {
        drop(self.stop);
        within(self.task).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_was_lost_after_its_effect_is_a_replay_with_the_first_result() {
    let world = World::start().await;
    world.impatient_queue("q").await;
    let wish = Publish::new("q", &json!({ "amount": 10 })).unwrap().key("order-17");
    let id = world.client().publish(&wish).await.unwrap().id;
    let (ledger, provider) = (ledger(), Provider::new());
    let proxy = Proxy::to(world.address).unwrap();
    let far = World::client_of(proxy.address());
    let worker = Worker::new(&far, "q").lease(Duration::from_secs(10));
    let first = Running::start(worker, charging(&ledger, &provider));
    until(async || provider.charges() == 1).await;
    // It is cut off while it charges, and its lease runs out. The second finds it at work, and waits.
    proxy.blackhole();
    world.advance(Duration::from_secs(11));
    let second = Running::start(Worker::new(&world.client(), "q"), charging(&ledger, &provider));
    until(async || world.client().job(&id).await.unwrap().defer_count > 0).await;
    let waiting = world.client().job(&id).await.unwrap();
    assert_eq!((waiting.attempts, provider.charges()), (1, 1), "only the lease that ran out counts");
    // The charge goes through, and nobody hears of it from the first worker.
    provider.go.add_permits(1);
    until(async || {
        world.advance(Duration::from_secs(1));
        world.client().job(&id).await.unwrap().state == State::Completed
    })
    .await;
    let done = world.client().job(&id).await.unwrap();
    let receipt = done.effect.as_ref().unwrap();
    assert_eq!((receipt.outcome, receipt.key.as_deref()), (Effect::Replayed, Some("order-17")));
    assert_eq!((done.result::<u32>().unwrap(), provider.charges()), (Some(1), 1));
    assert_eq!(second.stop().await.done, 1);
    proxy.cut();
    proxy.pass();
    assert_eq!(first.stop().await.lost, 1);
    drop(proxy);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_goes_to_the_dead_letters() {
    let world = World::start().await;
    world.impatient_queue("q").await;
    let ledger = ledger();
    let id = world.client().publish(&Publish::new("q", &1).unwrap()).await.unwrap().id;
    let mail = Once::new(move |_, call: Call| {
        let ledger = ledger.clone();
        async move {
            let sent = ledger.at_most_once(&call);
            sent.run(|_| async { Err::<(), _>(Failure::from("the connection broke".to_owned())) }).await
        }
    });
    let running = Running::start(Worker::new(&world.client(), "q"), mail);
    let dead = world.until(&id, State::Dead).await;
    assert_eq!(dead.attempts, 2, "{:?}", dead.history);
    assert!(dead.history[0].error.as_ref().unwrap().contains("the connection broke"));
    assert!(dead.last_error.unwrap().contains("nobody knows"), "{:?}", dead.history);
    assert_eq!(running.stop().await.failed, 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_under_a_ledger_answers_with_its_receipt() {
    let world = World::start().await;
    let (ledger, provider) = (ledger(), Provider::new());
    provider.go.add_permits(1);
    // The effect happens, and the first answer says that it failed: the second delivery is a replay.
    let failing = Arc::new(AtomicU32::new(0));
    let handler = Once::new(move |_, call: Call| {
        let (ledger, provider, failing) = (ledger.clone(), provider.clone(), failing.clone());
        async move {
            let verdict = ledger.intent(&call).run(|_| async move { provider.charge().await }).await;
            match failing.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Error::Effect("it broke off after the charge".to_owned())),
                _ => verdict,
            }
        }
    });
    let hook = crate::pushed::Hook::on(&world, handler).await;
    let id = world.client().publish(&Publish::new("q", &1).unwrap().key("order-1")).await.unwrap().id;
    let done = world.until(&id, State::Completed).await;
    assert_eq!((done.attempts, done.result::<u32>().unwrap()), (2, Some(1)));
    assert_eq!(done.effect.unwrap().outcome, Effect::Replayed);
    drop(hook);
    world.end().await;
}
