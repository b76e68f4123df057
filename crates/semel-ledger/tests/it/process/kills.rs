//! SIGKILL at every boundary: the next worker does what the crash tables say.

use semel_ledger::Boundary;

use super::orders::{Desk, Mode, Place};
use super::worker::{start_and_stop, summary};
use super::{DURABLE, Guard, orders, settled};
use crate::modes::Provider;

/// Kills a worker that is at each of the boundaries with a job of every mode, then delivers those jobs again.
async fn killed_everywhere(guard: &Guard, place: &Place, modes: &[Mode]) {
    for (stop, boundary) in Boundary::ALL.into_iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let name =
            format!("{:?}-{stop}", std::mem::discriminant(place)).replace(|c: char| !c.is_alphanumeric(), "");
        let mut orders = orders(place.clone(), modes, &name, &directory);
        orders.stop = Some(stop);
        start_and_stop(&orders).kill().unwrap();

        let (desk, provider) = (Desk::open(&orders).await, Provider::at(directory.path()));
        for (mode, key) in &orders.jobs {
            let told = summary(&settled(&desk, *mode, key, 2).await);
            let effects =
                if *mode == Mode::Transactional { guard.rows(key).await } else { provider.count(key) };
            let (expected_told, expected_effects) = expected(*mode, boundary);
            let case = format!("{mode:?} in {place:?}, killed {}", boundary.name());
            assert!(told.starts_with(expected_told), "{case}: {told}");
            assert_eq!(effects, expected_effects, "{case}");
        }
    }
}

/// The crash tables: what the next delivery is told, and how often the effect has happened then.
fn expected(mode: Mode, killed: Boundary) -> (&'static str, u64) {
    match (mode, killed) {
        (_, Boundary::BeforeClaim) => ("applied", 1),
        (_, Boundary::AfterRecord | Boundary::BeforeAck) if mode != Mode::Steps => ("replayed", 1),
        (Mode::AtMostOnce, Boundary::AfterClaim) => ("failed: the effect was attempted", 0),
        (Mode::AtMostOnce, _) => ("failed: the effect was attempted", 1),
        // It happened, and somebody could be asked.
        (Mode::Reconcile, Boundary::AfterEffect) => ("replayed", 1),
        // It runs again, which is harmless.
        (Mode::Seen, Boundary::AfterEffect) => ("applied", 2),
        // The first step is recorded, the job is not.
        (Mode::Steps, Boundary::BeforeAck) => ("replayed", 1),
        _ => ("applied", 1),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_workers_killed_on_postgres_through_tokio_postgres() {
    let guard = Guard::postgres();
    let modes = [&DURABLE[..], &[Mode::Transactional]].concat();
    killed_everywhere(&guard, &guard.place(), &modes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_workers_killed_on_postgres_through_sqlx() {
    let guard = Guard::postgres();
    let Place::Tokio(url) = guard.place() else { unreachable!("it is a PostgreSQL") };
    let modes = [&DURABLE[..], &[Mode::Transactional]].concat();
    killed_everywhere(&guard, &Place::Sqlx(url), &modes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_workers_killed_on_mariadb() {
    let guard = Guard::maria().await;
    let modes = [&DURABLE[..], &[Mode::Transactional]].concat();
    killed_everywhere(&guard, &guard.place(), &modes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_workers_killed_on_sqlite() {
    // A transaction keeps all others from writing, so it has a process to itself.
    for modes in [&DURABLE[..], &[Mode::Transactional]] {
        let guard = Guard::sqlite().await;
        killed_everywhere(&guard, &guard.place(), modes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_workers_killed_on_redis() {
    let guard = Guard::redis().await;
    killed_everywhere(&guard, &guard.place(), &DURABLE).await;
}
