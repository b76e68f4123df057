//! When a commit sets out while others are on their way.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use semel_store::group_commit::{CommitError, GroupCommit, Options};
use semel_store::{Command, StoreError};
use tokio::task::{JoinHandle, yield_now};

use crate::gate::{Gate, Told, gather, submit, until_waiting};
use crate::support::{command, echo, numbers, store};

#[tokio::test]
async fn several_commits_may_be_on_their_way() {
    let (commit, gate, _driver) = Gate::start(Options { in_flight: 2, ..Options::default() });
    let first = submit(&commit, 1);
    gate.reached_by(1).await;
    let second = submit(&commit, 2);
    gate.reached_by(2).await;
    let rest = [submit(&commit, 3), submit(&commit, 4)];
    until_waiting(&commit, 2).await;
    assert_eq!(gate.batches(), [[1], [2]], "a third has to wait");
    gate.let_through(3);
    for caller in [first, second].into_iter().chain(rest) {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(gate.batches(), [vec![1], vec![2], vec![3, 4]]);
}

#[tokio::test]
async fn a_commit_is_alone_on_its_way_for_a_while() {
    let long = Duration::from_secs(3600);
    let (commit, gate, _driver) = Gate::start(Options { in_flight: 2, stagger: long, ..Options::default() });
    let callers = gather(&commit, &gate, 3).await;
    for _ in 0..20 {
        yield_now().await;
    }
    assert_eq!(gate.batches(), [[0]], "those who came while it was on its way gather");
    gate.let_through(2);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(gate.batches(), [vec![0], vec![1, 2, 3]], "the next goes as soon as it is through");
}

#[tokio::test]
async fn nobody_waits_for_long_behind_a_commit_that_is_stuck() {
    let short = Duration::from_millis(1);
    let (commit, gate, _driver) = Gate::start(Options { in_flight: 2, stagger: short, ..Options::default() });
    let stuck = submit(&commit, 1);
    gate.reached_by(1).await;
    let other = submit(&commit, 2);
    gate.reached_by(2).await;
    assert_eq!(gate.batches(), [[1], [2]]);
    gate.let_through(2);
    stuck.await.unwrap().unwrap();
    other.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_more_there_are_to_commit_the_longer_each_is_alone() {
    let span = Duration::from_millis(10);
    let (commit, gate, _driver) = Gate::start(Options { in_flight: 2, stagger: span, ..Options::default() });
    commit.share_with(2);
    let stuck = submit(&commit, 1);
    gate.reached_by(1).await;
    let other = submit(&commit, 2);
    tokio::time::sleep(3 * span - Duration::from_millis(1)).await;
    assert_eq!(gate.batches(), [[1]]);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(gate.batches(), [[1], [2]]);
    gate.let_through(2);
    stuck.await.unwrap().unwrap();
    other.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_was_sent_at_once_is_committed_in_order() {
    let (commit, gate, _driver) = Gate::start(Options { max_batch: 2, in_flight: 3, ..Options::default() });
    let parcel = {
        let commit = commit.clone();
        tokio::spawn(async move { commit.submit_all((1..=5).map(command).collect()).await })
    };
    gate.reached_by(1).await;
    let alone = submit(&commit, 6);
    for _ in 0..20 {
        yield_now().await;
    }
    assert_eq!(
        gate.batches(),
        [[1, 2]],
        "the rest waits for its beginning, although two more commits may be made"
    );
    gate.let_through(1);
    gate.reached_by(2).await;
    gate.let_through(1);
    gate.reached_by(3).await;
    gate.let_through(1);
    assert!(parcel.await.unwrap().iter().all(Result::is_ok));
    alone.await.unwrap().unwrap();
    assert_eq!(gate.batches(), [vec![1, 2], vec![3, 4], vec![5, 6]]);
}

#[tokio::test]
async fn what_was_sent_at_once_is_not_divided_among_commits_if_it_fits_into_one() {
    let (commit, gate, _driver) = Gate::start(Options { max_batch: 5, in_flight: 3, ..Options::default() });
    let first = submit(&commit, 0);
    gate.reached_by(1).await;
    // Three parcels of two, pushed before the driver runs again.
    let parcel = move |from: u64| {
        let commit = commit.clone();
        async move { commit.submit_all((from..from + 2).map(command).collect()).await }
    };
    let parcels = tokio::spawn(async move { tokio::join!(parcel(1), parcel(3), parcel(5)) });
    gate.reached_by(3).await;
    assert_eq!(gate.batches(), [vec![0], vec![1, 2, 3, 4], vec![5, 6]], "none waits for another");
    gate.let_through(3);
    first.await.unwrap().unwrap();
    let (one, two, three) = parcels.await.unwrap();
    assert!([one, two, three].iter().flatten().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_full_does_not_wait_to_be_alone() {
    let long = Duration::from_secs(3600);
    let options = Options { max_batch: 2, in_flight: 2, stagger: long, ..Options::default() };
    let (commit, gate, _driver) = Gate::start(options);
    // Both batches are there when the driver first looks: the second is full, and sets out at once.
    let callers: Vec<_> = (0..4).map(|number| submit(&commit, number)).collect();
    gate.reached_by(2).await;
    assert_eq!(gate.batches(), [[0, 1], [2, 3]]);
    gate.let_through(2);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
}

/// Options under which the next commit waits for callers to come back.
fn lingering(linger: Duration) -> Options {
    Options { in_flight: 2, stagger: Duration::from_secs(3600), linger, ..Options::default() }
}

/// Submits commands that the driver finds together.
fn crowd(commit: &GroupCommit, numbers: std::ops::Range<u64>) -> Vec<JoinHandle<Told>> {
    numbers.map(|number| submit(commit, number)).collect()
}

async fn all_answered(callers: Vec<JoinHandle<Told>>) {
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_waits_for_as_many_as_there_usually_are() {
    let (commit, gate, _driver) = Gate::start(lingering(Duration::from_secs(3600)));
    let first = crowd(&commit, 0..6);
    gate.reached_by(1).await;
    gate.let_through(2);
    all_answered(first).await;
    let mut back = crowd(&commit, 10..15);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(gate.batches(), [vec![0, 1, 2, 3, 4, 5]], "one of six is missing");
    back.push(submit(&commit, 15));
    all_answered(back).await;
    assert_eq!(gate.batches()[1], [10, 11, 12, 13, 14, 15]);
}

#[tokio::test(start_paused = true)]
async fn those_who_do_not_come_back_are_waited_for_once() {
    let span = Duration::from_millis(10);
    let (commit, gate, _driver) = Gate::start(lingering(span));
    gate.let_through(3);
    all_answered(crowd(&commit, 0..6)).await;
    let some = crowd(&commit, 10..12);
    tokio::time::sleep(span - Duration::from_millis(1)).await;
    assert_eq!(gate.batches().len(), 1);
    all_answered(some).await;
    assert_eq!(gate.batches()[1], [10, 11], "time is over");
    let before = tokio::time::Instant::now();
    all_answered(vec![submit(&commit, 20)]).await;
    assert_eq!(before.elapsed(), Duration::ZERO, "two are so few that nobody waits for the second");
}

#[tokio::test(start_paused = true)]
async fn whoever_sends_one_after_the_other_is_answered_at_once() {
    let (commit, gate, _driver) = Gate::start(lingering(Duration::from_secs(3600)));
    gate.let_through(100);
    for number in 0..100 {
        all_answered(vec![submit(&commit, number)]).await;
    }
    assert_eq!(gate.batches().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn among_several_a_commit_sets_out_beside_another_once_it_is_as_large() {
    let (commit, gate, _driver) = Gate::start(lingering(Duration::from_millis(1)));
    commit.share_with(1);
    let first = crowd(&commit, 0..50);
    gate.reached_by(1).await;
    let second = crowd(&commit, 100..149);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(gate.batches().len(), 1, "the first has fifty");
    let last = submit(&commit, 149);
    gate.reached_by(2).await;
    assert_eq!(gate.batches()[1].len(), 50);
    gate.let_through(2);
    all_answered(first).await;
    all_answered(second).await;
    all_answered(vec![last]).await;
}

#[tokio::test(start_paused = true)]
async fn many_callers_of_one_alone_are_not_waited_for_and_make_one_commit_after_the_other() {
    let (commit, gate, _driver) = Gate::start(lingering(Duration::from_secs(3600)));
    let first = crowd(&commit, 0..30);
    gate.reached_by(1).await;
    let second = crowd(&commit, 100..135);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(gate.batches().len(), 1, "none beside the first, however many wait");
    gate.let_through(1);
    all_answered(first).await;
    gate.reached_by(2).await;
    assert_eq!(gate.batches()[1].len(), 35);
    let few = crowd(&commit, 200..203);
    gate.let_through(2);
    all_answered(second).await;
    // Time does not go on for those who wait.
    let before = tokio::time::Instant::now();
    all_answered(few).await;
    assert_eq!(before.elapsed(), Duration::ZERO, "three of many set out at once");
}

#[tokio::test]
async fn what_is_kept_back_is_told_when_the_driver_goes_away() {
    let (commit, gate, driver) = Gate::start(Options { max_batch: 1, in_flight: 2, ..Options::default() });
    let parcel = {
        let commit = commit.clone();
        tokio::spawn(async move { commit.submit_all(vec![command(1), command(2)]).await })
    };
    gate.reached_by(1).await;
    while commit.waiting() > 0 {
        yield_now().await;
    }
    driver.abort();
    let told = parcel.await.unwrap();
    assert!(matches!(told[0], Err(CommitError::Store(StoreError::Unknown(_)))), "{told:?}");
    assert!(matches!(told[1], Err(CommitError::Store(StoreError::Closed))), "{told:?}");
}

/// A store that never waits must not keep the thread for itself while callers keep coming.
#[tokio::test]
async fn a_store_that_is_always_ready_lets_others_run() {
    let store = store(|batch: Vec<Command>| async move { Ok(echo(&numbers(&batch))) });
    let (commit, mut driver) = GroupCommit::start(store, Options { max_batch: 1, ..Options::default() });
    let caller = {
        let commit = commit.clone();
        tokio::spawn(async move { commit.submit_all((0..100).map(command).collect()).await })
    };
    until_waiting(&commit, 100).await;
    let polled_once = poll_fn(|cx| Poll::Ready(Pin::new(&mut driver).poll(cx))).await;
    assert!(polled_once.is_pending());
    assert!((1..100).contains(&commit.waiting()), "{} are left", commit.waiting());
    tokio::spawn(driver);
    assert!(caller.await.unwrap().iter().all(Result::is_ok));
}
