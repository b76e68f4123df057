//! Callers, drivers and stores that go away.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use semel_store::StoreError;
use semel_store::group_commit::{CommitError, GroupCommit, Options};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use crate::gate::{Gate, Told, gather, submit, until_waiting};
use crate::support::{command, reply, store};

#[tokio::test]
async fn the_command_of_a_caller_that_went_away_is_still_applied() {
    let (commit, gate, _driver) = Gate::start(Options::default());
    let callers = gather(&commit, &gate, 3).await;
    callers[0].abort();
    callers[2].abort();
    gate.let_through(2);
    for (caller, number) in callers.into_iter().zip(0..) {
        match caller.await {
            Ok(outcome) => assert_eq!(outcome.unwrap(), reply(number)),
            Err(gone) => assert!(gone.is_cancelled() && number % 2 == 0),
        }
    }
    assert_eq!(gate.batches(), [vec![0], vec![1, 2, 3]]);
}

#[tokio::test]
async fn closing_answers_everybody_who_was_accepted_and_then_ends_the_driver() {
    let (commit, gate, driver) = Gate::start(Options { max_batch: 2, ..Options::default() });
    let callers = gather(&commit, &gate, 3).await;
    let closing = {
        let commit = commit.clone();
        tokio::spawn(async move { commit.close().await })
    };
    yield_now().await;
    assert!(matches!(commit.submit(command(99)).await, Err(CommitError::Store(StoreError::Closed))));
    assert!(!closing.is_finished() && !driver.is_finished());
    gate.let_through(3);
    closing.await.unwrap();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    driver.await.unwrap();
    commit.close().await;
}

#[tokio::test]
async fn closing_waits_for_every_commit_on_its_way() {
    let (commit, gate, driver) = Gate::start(Options { in_flight: 2, ..Options::default() });
    let caller = submit(&commit, 1);
    gate.reached_by(1).await;
    let mut closing = pin!(commit.close());
    assert!(poll_fn(|cx| Poll::Ready(closing.as_mut().poll(cx))).await.is_pending());
    yield_now().await;
    assert!(!driver.is_finished());
    gate.let_through(1);
    closing.await;
    assert_eq!(caller.await.unwrap().unwrap(), reply(1));
}

#[tokio::test]
async fn the_driver_ends_when_the_last_handle_is_gone() {
    let (commit, gate, driver) = Gate::start(Options::default());
    gate.let_through(1);
    let clone = commit.clone();
    drop(commit);
    clone.submit(command(1)).await.unwrap();
    drop(clone);
    driver.await.unwrap();
}

/// Nobody may be left waiting, and nobody may be told "not done" of what may have been done.
async fn check_aftermath(commit: GroupCommit, mut callers: Vec<JoinHandle<Told>>) {
    let on_its_way = callers.remove(0).await.unwrap();
    assert!(matches!(on_its_way, Err(CommitError::Store(StoreError::Unknown(_)))), "{on_its_way:?}");
    for queued in callers {
        let queued = queued.await.unwrap();
        assert!(matches!(queued, Err(CommitError::Store(StoreError::Closed))), "{queued:?}");
    }
    let later = commit.submit(command(99)).await;
    assert!(matches!(later, Err(CommitError::Store(StoreError::Closed))), "{later:?}");
    commit.close().await;
}

#[tokio::test]
async fn a_driver_that_is_dropped_tells_everybody_what_is_known() {
    let (commit, gate, driver) = Gate::start(Options::default());
    let callers = gather(&commit, &gate, 3).await;
    driver.abort();
    check_aftermath(commit, callers).await;
}

#[tokio::test]
async fn a_store_that_panics_leaves_nobody_waiting() {
    let go = Arc::new(Semaphore::new(0));
    let entered = go.clone();
    let store = store(move |_| {
        let go = entered.clone();
        async move {
            go.acquire().await.unwrap().forget();
            panic!("a store must not do this, but one may");
        }
    });
    let (commit, driver) = GroupCommit::start(store, Options { max_batch: 1, ..Options::default() });
    let driver = tokio::spawn(driver);
    let callers: Vec<_> = (0..3).map(|number| submit(&commit, number)).collect();
    until_waiting(&commit, 2).await;
    go.add_permits(1);
    check_aftermath(commit, callers).await;
    assert!(driver.await.unwrap_err().is_panic());
}

#[tokio::test]
async fn a_driver_that_never_ran_tells_its_callers_when_it_is_dropped() {
    let store = store(|_| pending());
    let (commit, driver) = GroupCommit::start(store, Options::default());
    let caller = submit(&commit, 1);
    until_waiting(&commit, 1).await;
    drop(driver);
    assert!(matches!(caller.await.unwrap(), Err(CommitError::Store(StoreError::Closed))));
}
