//! SIGSTOP past the lease, then SIGCONT: a worker that was overtaken cannot record anything.

use rustix::process::Signal;

use super::orders::{Desk, Mode};
use super::worker::{Worker, summary};
use super::{Guard, orders, settled};
use crate::modes::Provider;

/// Each stalls when its effect has happened and is not recorded, and another worker takes over.
async fn overtaken(guard: Guard) {
    let modes = [Mode::Intent, Mode::Reconcile, Mode::Steps];
    let directory = tempfile::tempdir().unwrap();
    let mut orders = orders(guard.place(), &modes, "stalled", &directory);
    orders.stop = Some(2);
    let mut worker = Worker::start(&orders);
    worker.wait_until_reached(modes.len());
    worker.signal(Signal::STOP);

    let (desk, provider) = (Desk::open(&orders).await, Provider::at(directory.path()));
    for (mode, key) in &orders.jobs {
        let told = summary(&settled(&desk, *mode, key, 2).await);
        assert!(matches!(told.as_str(), "applied" | "replayed"), "{mode:?}: {told}");
    }

    worker.go_on();
    worker.signal(Signal::CONT);
    for _ in &modes {
        let told = worker.line();
        assert!(told.contains("failed: a newer delivery has taken over"), "{told}");
    }
    for (mode, key) in &orders.jobs {
        assert_eq!(summary(&settled(&desk, *mode, key, 3).await), "replayed", "{mode:?}");
        assert_eq!(provider.count(key), 1, "{mode:?}");
    }
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
