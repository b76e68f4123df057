//! A message comes again once its visibility time-out has passed, whatever its worker is doing.

use std::time::Duration;

use other_queues::shop::{Shop, charges};
use other_queues::visibility::Queue;
use semel_ledger::handler::{Disposition, Job, Receipt};
use tokio::sync::Notify;

use crate::{ORDER, receipt};

/// So short that it has passed by the time anybody looks again.
const SHORT: Duration = Duration::from_millis(1);

const LONG: Duration = Duration::from_secs(600);

/// Works on the next message once there is one.
async fn next(queue: &Queue, shop: &Shop) -> Disposition {
    let charge = async |job: &Job<'_>| shop.charge(job).await;
    loop {
        match queue.work_one(LONG, &charge).await {
            Some(disposition) => return disposition,
            None => tokio::time::sleep(SHORT).await,
        }
    }
}

#[tokio::test]
async fn behind_sqs_a_worker_that_ends_before_it_deletes_charges_once() {
    let home = tempfile::tempdir().unwrap();
    let database = home.path().join("shop.db");
    let (queue, shop) = (Queue::default(), Shop::open(&database).await.unwrap());
    queue.send(Some("order-9482"), ORDER);

    let done = Notify::new();
    let charge = async |job: &Job<'_>| {
        let told = shop.charge(job).await;
        done.notify_one();
        std::future::pending::<()>().await;
        told
    };
    // The worker is dropped where it stands: between its effect and the deletion.
    tokio::select! {
        told = queue.work_one(SHORT, &charge) => panic!("it came to an end: {told:?}"),
        () = done.notified() => {}
    }

    assert_eq!(receipt(&next(&queue, &shop).await), Receipt::Replayed);
    assert_eq!(charges(&database, "9482").unwrap(), 1);
    assert!(queue.is_empty());
}

#[tokio::test]
async fn a_worker_that_outlasts_its_visibility_neither_charges_nor_deletes_twice() {
    let home = tempfile::tempdir().unwrap();
    let database = home.path().join("shop.db");
    let (queue, shop) = (Queue::default(), Shop::open(&database).await.unwrap());
    queue.send(Some("order-9482"), ORDER);

    // The first delivery goes on for so long that a second worker is done before it.
    let slow = async |job: &Job<'_>| {
        assert_eq!(receipt(&next(&queue, &shop).await), Receipt::Applied);
        queue.send(Some("order-1"), br#"{"order": "1", "cents": 1}"#);
        shop.charge(job).await
    };
    let told = queue.work_one(SHORT, &slow).await.unwrap();
    assert_eq!(receipt(&told), Receipt::Replayed);
    assert_eq!(charges(&database, "9482").unwrap(), 1);
    assert_eq!(queue.len(), 1, "its receipt deletes nothing that came later");
}

#[tokio::test]
async fn what_cannot_succeed_is_with_the_dead_letters() {
    let home = tempfile::tempdir().unwrap();
    let (queue, shop) = (Queue::default(), Shop::open(&home.path().join("shop.db")).await.unwrap());
    queue.send(None, ORDER);
    queue.send(Some("order-1"), b"no order");
    for _ in 0..2 {
        let told = next(&queue, &shop).await;
        assert!(matches!(told, Disposition::Fail { retryable: false, .. }), "{told:?}");
    }
    assert_eq!((queue.len(), queue.dead().len()), (0, 2));
}
