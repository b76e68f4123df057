//! The five workers. They differ in what they write down, and when.
//!
//! `scene.reach` and `scene.finish` are where the demonstration may kill the process; they do nothing else.

use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use semel_client::ledger::Once;
use semel_client::worker::Worker;
use semel_client::{Delivery, Handler};
use semel_ledger::sqlite::Sqlite;
use semel_ledger::{Call, Error, Failure as Failed, Intent, Ledger, Verdict};

use crate::acts::Act;
use crate::calling::Service;
use crate::failure::Failure;
use crate::shop;
use crate::word::Boundary::{AfterEffect, BeforeEffect};
use crate::worker::{Orders, Prompter, Scene};

/// As long as the queue's lease, so that a dead worker's claim is over when its job is delivered again, or soon after. In
/// the second case the ledger says "in progress", and the job comes once more.
const CLAIM: Duration = Duration::from_secs(3);

/// What a worker has at hand.
#[derive(Clone)]
struct Desk {
    prompter: Prompter,
    service: Service,
    ledger: Ledger<Sqlite>,
    shop: PathBuf,
}

/// Works on jobs for ever.
pub(crate) async fn run(worker: Worker, orders: &Orders, prompter: Prompter) -> Result<(), Failure> {
    let ledger = Ledger::builder(Sqlite::open(&orders.shop)?, "billing").lease(CLAIM).build()?;
    ledger.ensure_schema().await?;
    let (service, shop) = (Service::at(orders.service.clone()), orders.shop.clone());
    let desk = Desk { prompter, service, ledger, shop };
    let run = match orders.act {
        Act::Naive => worker.run(naive(desk), pending()).await,
        Act::InsertFirst => worker.run(insert_first(desk), pending()).await,
        Act::Transactional => worker.run(transactional(desk), pending()).await,
        Act::Intent => worker.run(intent(desk), pending()).await,
        Act::AtMostOnce => worker.run(at_most_once(desk), pending()).await,
    };
    Ok(run.map(drop)?)
}

/// Act 1: charge, then acknowledge.
fn naive(desk: Desk) -> impl Handler {
    move |delivery: Delivery| {
        let desk = desk.clone();
        async move {
            let scene = desk.prompter.scene(&delivery)?;
            scene.reach(BeforeEffect).await?;
            desk.service.ask(scene.order, None).await?;
            scene.reach(AfterEffect).await?;
            scene.finish("charged, ack").await
        }
    }
}

/// Act 2: insert a row, commit, then charge. Whoever finds the row does nothing.
fn insert_first(desk: Desk) -> impl Handler {
    move |delivery: Delivery| {
        let desk = desk.clone();
        async move {
            let scene = desk.prompter.scene(&delivery)?;
            if !shop::see(&Connection::open(&desk.shop)?, scene.order)? {
                return scene.finish("the row is there: nothing to do, ack").await;
            }
            scene.reach(BeforeEffect).await?;
            desk.service.ask(scene.order, None).await?;
            scene.reach(AfterEffect).await?;
            scene.finish("charged, ack").await
        }
    }
}

/// Act 3: the ledger's entry and the charge are rows of one transaction.
fn transactional(desk: Desk) -> impl Handler {
    Once::new(move |delivery, call: Call| {
        let desk = desk.clone();
        async move {
            let scene = desk.prompter.scene(&delivery).map_err(Error::Effect)?;
            let effect = scene.clone();
            let charge = move |connection: &Connection| {
                effect.reach_blocking(BeforeEffect)?;
                let id = shop::charge(connection, effect.order)?;
                effect.reach_blocking(AfterEffect)?;
                Ok(id)
            };
            let verdict = desk.ledger.transact(&call, charge).await;
            told(&scene, verdict).await
        }
    })
}

/// Act 4: the intent is written down, and the provider gets the key that belongs to it.
fn intent(desk: Desk) -> impl Handler {
    Once::new(move |delivery, call: Call| {
        let desk = desk.clone();
        async move {
            let scene = &desk.prompter.scene(&delivery).map_err(Error::Effect)?;
            let service = &desk.service;
            let charge = |intent: Intent| async move {
                scene.reach(BeforeEffect).await?;
                let charge = service.ask(scene.order, Some(intent.downstream_key())).await?;
                scene.reach(AfterEffect).await?;
                Ok::<_, Failed<Failure>>(charge.id)
            };
            let verdict = desk.ledger.intent(&call).run(charge).await;
            told(scene, verdict).await
        }
    })
}

/// Act 5: written down, sent, and never tried again.
fn at_most_once(desk: Desk) -> impl Handler {
    Once::new(move |delivery, call: Call| {
        let desk = desk.clone();
        async move {
            let scene = &desk.prompter.scene(&delivery).map_err(Error::Effect)?;
            let service = &desk.service;
            let mail = |_: Intent| async move {
                scene.reach(BeforeEffect).await?;
                service.ask(scene.order, None).await?;
                scene.reach(AfterEffect).await?;
                Ok::<_, Failed<Failure>>(())
            };
            let verdict = desk.ledger.at_most_once(&call).run(mail).await;
            told(scene, verdict).await
        }
    })
}

type Told<T> = Result<Verdict<T>, Error<Failure>>;

/// Stands still before the queue hears a verdict that ends the job.
async fn told<T>(scene: &Scene, verdict: Told<T>) -> Told<T> {
    let says = match &verdict {
        Ok(Verdict::Applied(_)) => "applied, ack",
        Ok(Verdict::Replayed(_)) => "replayed: it had happened, ack",
        Ok(Verdict::OutcomeUnknown { .. }) => "nobody knows: to the dead letters",
        Ok(Verdict::InProgress { .. }) | Err(_) => return verdict,
    };
    scene.finish(says).await.map_err(Error::Effect)?;
    verdict
}
