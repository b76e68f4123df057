//! SIGSTOP past the lease, then SIGCONT: a worker that was overtaken cannot record anything.

use super::orders::{Desk, Mode, Place};
use super::worker::{start_and_stop, summary};
use super::{Guard, orders, settled};
use crate::modes::Provider;

/// Each stalls when its effect has happened and is not recorded, and another worker takes over.
async fn overtaken(guard: Guard) {
    let modes = [Mode::Intent, Mode::Reconcile, Mode::Steps];
    let directory = tempfile::tempdir().unwrap();
    let mut orders = orders(guard.place(), &modes, "stalled", &directory);
    orders.stop = Some(2);
    let mut worker = start_and_stop(&orders);
    worker.freeze().unwrap();

    let (desk, provider) = (Desk::open(&orders).await, Provider::at(directory.path()));
    for (mode, key) in &orders.jobs {
        let told = summary(&settled(&desk, *mode, key, 2).await);
        assert!(matches!(told.as_str(), "applied" | "replayed"), "{mode:?}: {told}");
    }

    worker.go_on().unwrap();
    worker.thaw().unwrap();
    for _ in &modes {
        let told = worker.word().unwrap();
        assert!(told.contains("failed: a newer delivery has taken over"), "{told}");
    }
    for (mode, key) in &orders.jobs {
        assert_eq!(summary(&settled(&desk, *mode, key, 3).await), "replayed", "{mode:?}");
        assert_eq!(provider.count(key), 1, "{mode:?}");
    }
}

/// A worker that stalls in a transaction holds nobody up for longer than the server allows, and then cannot commit.
async fn cut_off(guard: &Guard, place: Place) {
    let directory = tempfile::tempdir().unwrap();
    let mut orders = orders(place, &[Mode::Transactional], "cut off", &directory);
    orders.stop = Some(2);
    let (mode, key) = orders.jobs[0].clone();
    let mut worker = start_and_stop(&orders);
    worker.freeze().unwrap();
    let desk = Desk::open(&orders).await;
    assert_eq!(summary(&settled(&desk, mode, &key, 2).await), "applied");
    worker.go_on().unwrap();
    worker.thaw().unwrap();
    let told = worker.word().unwrap();
    assert!(told.starts_with("Transactional failed"), "{told}");
    assert_eq!(summary(&settled(&desk, mode, &key, 3).await), "replayed");
    assert_eq!(guard.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_worker_that_stalled_in_a_transaction_is_cut_off_on_postgres() {
    let guard = Guard::postgres();
    let Guard::Postgres(database) = &guard else { unreachable!("it is a PostgreSQL") };
    let limit =
        format!("ALTER DATABASE {} SET idle_in_transaction_session_timeout = '300ms'", database.name());
    database.sql(&limit).unwrap();
    let url = database.url().to_owned();
    cut_off(&guard, Place::Tokio(url.clone())).await;
    database.sql("DELETE FROM semel_ledger.entry; DELETE FROM charge").unwrap();
    cut_off(&guard, Place::Sqlx(url)).await;
}

/// At most once: those that come later are told that nobody knows, and the worker that went on records what it did.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_worker_that_stalled_keeps_what_was_tried_at_most_once() {
    let guard = Guard::postgres();
    let directory = tempfile::tempdir().unwrap();
    let mut orders = orders(guard.place(), &[Mode::AtMostOnce], "stalled", &directory);
    orders.stop = Some(2);
    let (mode, key) = orders.jobs[0].clone();
    let mut worker = start_and_stop(&orders);
    worker.freeze().unwrap();
    let desk = Desk::open(&orders).await;
    let told = summary(&settled(&desk, mode, &key, 2).await);
    assert!(told.contains("nobody knows whether it happened"), "{told}");
    worker.go_on().unwrap();
    worker.thaw().unwrap();
    assert_eq!(worker.word().unwrap(), "AtMostOnce applied");
    assert_eq!(summary(&settled(&desk, mode, &key, 3).await), "replayed");
    assert_eq!(Provider::at(directory.path()).count(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_worker_that_stalled_is_overtaken_on_postgres() {
    overtaken(Guard::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_worker_that_stalled_is_overtaken_on_sqlite() {
    overtaken(Guard::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_worker_that_stalled_is_overtaken_on_mariadb() {
    overtaken(Guard::maria().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_worker_that_stalled_is_overtaken_on_redis() {
    overtaken(Guard::redis().await).await;
}
