//! What shares a commit, and what each of its callers is told.

use std::future::pending;
use std::sync::Arc;
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
use semel_store::{Command, ManualClock, MemoryStore, Store, StoreError};

use crate::gate::{Gate, gather, until_waiting};
use crate::support::{command, echo, numbers, reply, store};

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
async fn a_refusal_concerns_only_its_own_caller() {
    let no_queue = || Refusal::QueueNotFound(QueueName::try_from("nowhere").unwrap());
    let store = store(move |batch| async move {
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
    let store = store(|batch| async move {
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
    let store = store(|batch| async move { Ok(echo(&numbers(&batch)[1..])) });
    let (commit, driver) = GroupCommit::start(store, Options::default());
    tokio::spawn(driver);
    for outcome in commit.submit_all(vec![command(1), command(2)]).await {
        assert!(matches!(outcome, Err(CommitError::Store(StoreError::Unknown(_)))), "{outcome:?}");
    }
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
