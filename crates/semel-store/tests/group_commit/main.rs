//! Group commit over stores that do what each test needs, one step at a time.
#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a panic in a test is the report, in its helpers too")]

mod support;

use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use semel_core::key::Key;
use semel_core::lease::{Extend, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::refusal::Refusal;
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::group_commit::{CommitError, GroupCommit, Options, Overloaded, Settled};
use semel_store::store::BATCH_MAX;
use semel_store::{Command, ManualClock, MemoryStore, Reply, Store, StoreError};
use support::{command, echo, numbers, reply};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

type Told = Result<Reply, CommitError>;

/// A store whose commits wait until the test lets them through.
#[derive(Clone)]
struct Gate {
    open: Arc<Semaphore>,
    batches: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Gate {
    /// Group commit over a gated store, its driver running.
    fn start(options: Options) -> (GroupCommit, Gate, JoinHandle<()>) {
        let gate = Gate { open: Arc::new(Semaphore::new(0)), batches: Arc::default() };
        let inner = gate.clone();
        let store = support::store(move |batch| {
            let gate = inner.clone();
            async move {
                let numbers = numbers(&batch);
                gate.batches.lock().unwrap().push(numbers.clone());
                gate.open.acquire().await.unwrap().forget();
                Ok(echo(&numbers))
            }
        });
        let (commit, driver) = GroupCommit::start(store, options);
        (commit, gate, tokio::spawn(driver))
    }

    /// Lets `count` commits through.
    fn let_through(&self, count: usize) {
        self.open.add_permits(count);
    }

    /// The batches that have reached the store.
    fn batches(&self) -> Vec<Vec<u64>> {
        self.batches.lock().unwrap().clone()
    }

    async fn reached_by(&self, count: usize) {
        while self.batches().len() < count {
            yield_now().await;
        }
    }
}

fn submit(commit: &GroupCommit, number: u64) -> JoinHandle<Told> {
    let commit = commit.clone();
    tokio::spawn(async move { commit.submit(command(number)).await })
}

async fn until_waiting(commit: &GroupCommit, count: usize) {
    while commit.waiting() < count {
        yield_now().await;
    }
}

/// Sends 0, which goes on its way and stays there, and then 1 to `count`, which gather.
async fn gather(commit: &GroupCommit, gate: &Gate, count: u64) -> Vec<JoinHandle<Told>> {
    let mut callers = vec![submit(commit, 0)];
    gate.reached_by(1).await;
    for number in 1..=count {
        callers.push(submit(commit, number));
        until_waiting(commit, usize::try_from(number).unwrap()).await;
    }
    callers
}

#[tokio::test]
async fn an_idle_store_is_not_kept_waiting_for_company() {
    let (commit, gate, _driver) = Gate::start(Options::default());
    gate.let_through(1);
    assert_eq!(commit.submit(command(7)).await.unwrap(), reply(7));
    assert_eq!(gate.batches(), [[7]]);
}

#[tokio::test]
async fn a_patient_command_goes_along_with_the_next_commit() {
    let (commit, gate, _driver) = Gate::start(Options::default());
    gate.let_through(1);
    let patient = {
        let commit = commit.clone();
        tokio::spawn(async move { commit.submit_patiently(command(1), pending()).await })
    };
    until_waiting(&commit, 1).await;
    assert_eq!(commit.submit(command(2)).await.unwrap(), reply(2));
    assert_eq!(patient.await.unwrap().unwrap(), reply(1));
    assert_eq!(gate.batches(), [[1, 2]], "one commit for both");
}

#[tokio::test]
async fn a_patient_command_whose_patience_is_over_is_committed_alone() {
    let (commit, gate, _driver) = Gate::start(Options::default());
    gate.let_through(1);
    let (over, patience) = tokio::sync::oneshot::channel::<()>();
    let patience = async move { patience.await.unwrap() };
    let patient = {
        let commit = commit.clone();
        tokio::spawn(async move { commit.submit_patiently(command(1), patience).await })
    };
    until_waiting(&commit, 1).await;
    assert!(gate.batches().is_empty(), "alone it causes no commit");
    over.send(()).unwrap();
    assert_eq!(patient.await.unwrap().unwrap(), reply(1));
    assert_eq!(gate.batches(), [[1]]);
}

#[tokio::test]
async fn what_comes_in_during_a_commit_shares_the_next_one() {
    let (commit, gate, _driver) = Gate::start(Options::default());
    let callers = gather(&commit, &gate, 5).await;
    assert_eq!(gate.batches(), [[0]], "nothing overtakes the commit on its way");
    gate.let_through(2);
    for (caller, number) in callers.into_iter().zip(0..) {
        assert_eq!(caller.await.unwrap().unwrap(), reply(number));
    }
    assert_eq!(gate.batches(), [vec![0], vec![1, 2, 3, 4, 5]]);
}

#[tokio::test]
async fn a_batch_is_no_larger_than_allowed() {
    let (commit, gate, _driver) = Gate::start(Options { max_batch: 2, ..Options::default() });
    let callers = gather(&commit, &gate, 5).await;
    gate.let_through(4);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(gate.batches(), [vec![0], vec![1, 2], vec![3, 4], vec![5]]);
}

#[tokio::test]
async fn options_out_of_range_are_taken_to_the_nearest_end() {
    let most = u64::try_from(BATCH_MAX).unwrap() + 1;
    let huge = Options { capacity: BATCH_MAX * 2, max_batch: usize::MAX, in_flight: 0, ..Options::default() };
    let (commit, gate, _driver) = Gate::start(huge);
    gate.let_through(9);
    let all = commit.submit_all((0..most).map(command).collect()).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(gate.batches().iter().map(Vec::len).collect::<Vec<_>>(), [BATCH_MAX, 1]);

    let (commit, gate, _driver) =
        Gate::start(Options { capacity: 0, max_batch: 0, in_flight: 0, ..Options::default() });
    gate.let_through(1);
    assert_eq!(commit.submit(command(1)).await.unwrap(), reply(1));
}

#[tokio::test]
async fn a_full_queue_turns_callers_away_at_once() {
    let (commit, gate, _driver) = Gate::start(Options { capacity: 3, ..Options::default() });
    let callers = gather(&commit, &gate, 3).await;
    let turned_away = commit.submit(command(99)).await;
    let Err(CommitError::Overloaded(Overloaded { waiting: 3, retry_after })) = turned_away else {
        panic!("{turned_away:?}");
    };
    assert!(retry_after > Duration::ZERO);
    gate.let_through(2);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert!(!gate.batches().concat().contains(&99), "what was turned away is not done");
    gate.let_through(1);
    assert_eq!(commit.submit(command(99)).await.unwrap(), reply(99), "there is room again");
}

#[tokio::test]
async fn a_batch_of_an_api_call_is_answered_item_by_item_in_order() {
    let (commit, gate, _driver) =
        Gate::start(Options { capacity: 4, max_batch: 3, in_flight: 1, ..Options::default() });
    gate.let_through(2);
    let all = commit.submit_all((0..6).map(command).collect()).await;
    for (outcome, number) in all[..4].iter().zip(0..) {
        assert_eq!(*outcome.as_ref().unwrap(), reply(number));
    }
    assert!(all[4..].iter().all(|outcome| matches!(outcome, Err(CommitError::Overloaded(_)))), "{all:?}");
    assert_eq!(gate.batches(), [vec![0, 1, 2], vec![3]], "they go down together, as far as there is room");
    assert!(commit.submit_all(Vec::new()).await.is_empty());
}

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

#[tokio::test]
async fn a_refusal_concerns_only_its_own_caller() {
    let no_queue = || Refusal::QueueNotFound(QueueName::try_from("nowhere").unwrap());
    let store = support::store(move |batch| async move {
        Ok(numbers(&batch).into_iter().map(|n| if n == 2 { Err(no_queue()) } else { Ok(reply(n)) }).collect())
    });
    let (commit, driver) = GroupCommit::start(store, Options::default());
    tokio::spawn(driver);
    let all = commit.submit_all(vec![command(1), command(2), command(3)]).await;
    assert_eq!(*all[0].as_ref().unwrap(), reply(1));
    assert!(matches!(&all[1], Err(CommitError::Refused(refusal)) if *refusal == no_queue()));
    assert_eq!(*all[2].as_ref().unwrap(), reply(3));
}

#[tokio::test]
async fn an_error_of_the_store_is_told_to_everybody_in_the_batch_and_ends_nothing() {
    let store = support::store(|batch| async move {
        let numbers = numbers(&batch);
        if numbers.contains(&13) { Err(StoreError::Full("no space left".into())) } else { Ok(echo(&numbers)) }
    });
    let (commit, driver) = GroupCommit::start(store, Options::default());
    tokio::spawn(driver);
    for outcome in commit.submit_all(vec![command(12), command(13)]).await {
        assert!(matches!(outcome, Err(CommitError::Store(StoreError::Full(_)))), "{outcome:?}");
    }
    assert_eq!(commit.submit(command(14)).await.unwrap(), reply(14));
}

#[tokio::test]
async fn a_store_that_loses_count_of_its_answers_leaves_the_outcome_unknown() {
    let store = support::store(|batch| async move { Ok(echo(&numbers(&batch)[1..])) });
    let (commit, driver) = GroupCommit::start(store, Options::default());
    tokio::spawn(driver);
    for outcome in commit.submit_all(vec![command(1), command(2)]).await {
        assert!(matches!(outcome, Err(CommitError::Store(StoreError::Unknown(_)))), "{outcome:?}");
    }
}

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
    let store = support::store(move |_| {
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
    let store = support::store(|_| pending());
    let (commit, driver) = GroupCommit::start(store, Options::default());
    let caller = submit(&commit, 1);
    until_waiting(&commit, 1).await;
    drop(driver);
    assert!(matches!(caller.await.unwrap(), Err(CommitError::Store(StoreError::Closed))));
}

#[tokio::test]
async fn publish_settle_and_extend_reach_a_real_store() {
    let queue = QueueName::try_from("orders").unwrap();
    let store =
        Arc::new(MemoryStore::new(Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)))));
    let (commit, driver) = GroupCommit::start(store.clone(), Options::default());
    tokio::spawn(driver);
    let config = Box::default();
    commit.submit(Command::PutQueue { name: queue.clone(), config }).await.unwrap();

    let draft =
        Draft::new(queue.clone(), Payload::from_json("1").unwrap()).with_key(Key::try_from("k").unwrap());
    let publish = draft.check().unwrap();
    let first = commit.publish(publish.clone()).await.unwrap();
    let second = commit.publish(publish).await.unwrap();
    assert_eq!((second.id, first.deduplicated, second.deduplicated), (first.id, false, true));

    let delivery = store.lease(LeaseRequest::new(queue.clone(), 1, None).unwrap()).await.unwrap().remove(0);
    let longer = Extend::new(delivery.id, Some(delivery.token), Millis::from_hours(1)).unwrap();
    assert!(commit.extend(longer).await.unwrap() > delivery.deadline);
    let done = Outcome::Done { result: None, effect: None };
    let settle = Settle::new(delivery.id, Some(delivery.token), done, Report::default()).unwrap();
    let settled = commit.settle(settle.clone()).await.unwrap();
    let took = Some(Millis::ZERO);
    assert_eq!(settled, Settled { queue, state: State::Completed, due: None, took, repeated: false });
    assert!(commit.settle(settle).await.unwrap().repeated);
}

/// A store that never waits must not keep the thread for itself while callers keep coming.
#[tokio::test]
async fn a_store_that_is_always_ready_lets_others_run() {
    let store = support::store(|batch: Vec<Command>| async move { Ok(echo(&numbers(&batch))) });
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
