//! Workers whose clocks are ten minutes off in either direction: the store's clock decides, so nothing changes.

use std::path::PathBuf;
use std::time::Duration;

use semel_ledger::handler::Disposition;

use super::orders::{Desk, Mode, Orders};
use super::worker::{summary, wait_until_reached, with_clock};
use super::{Guard, orders};
use crate::modes::Provider;

/// The library that answers for the clock, from the Debian package `faketime`.
fn library() -> Option<PathBuf> {
    let directories = std::fs::read_dir("/usr/lib").ok()?.flatten();
    directories.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.is_file())
}

/// One worker holds the job; its lease is no longer and no shorter for workers with other clocks.
async fn no_difference(guard: Guard) {
    let Some(library) = library() else {
        println!("SKIPPED: workers with skewed clocks: libfaketime is not installed");
        return;
    };
    for (holder, other) in [("+10m", "-10m"), ("-10m", "+10m")] {
        let directory = tempfile::tempdir().unwrap();
        let orders = orders(guard.place(), &[Mode::Intent], &format!("skew{holder}"), &directory);
        // A quarter of the skew, and much more than this test takes.
        let orders = Orders { lease: Duration::from_secs(150), ..orders };
        let stopping = Orders { stop: Some(1), ..orders.clone() };
        let mut first = with_clock(&stopping, &library, holder);
        wait_until_reached(&first, 1);

        let second = with_clock(&orders, &library, other);
        assert_eq!(
            second.word().unwrap(),
            "Intent deferred",
            "a worker at {other} sees the claim of one at {holder}"
        );
        let (mode, key) = orders.jobs[0].clone();
        let desk = Desk::open(&orders).await;
        match desk.deliver(mode, &key, 1).await {
            Disposition::Defer { until } => {
                assert!(until.remaining <= orders.lease, "{until:?}");
                assert!(until.remaining > orders.lease / 2, "{until:?}");
            }
            told => panic!("{}", summary(&told)),
        }

        first.go_on().unwrap();
        assert_eq!(first.word().unwrap(), "Intent applied");
        let third = with_clock(&orders, &library, other);
        assert_eq!(third.word().unwrap(), "Intent replayed");
        assert_eq!(Provider::at(directory.path()).count(&key), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_workers_with_skewed_clocks_on_postgres() {
    no_difference(Guard::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_workers_with_skewed_clocks_on_mariadb() {
    no_difference(Guard::maria().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_workers_with_skewed_clocks_on_redis() {
    no_difference(Guard::redis().await).await;
}
