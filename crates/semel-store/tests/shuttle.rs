//! The interleavings of the batcher and of group commit, explored.
//!
//! Each test runs thousands of times, with the threads in another order each time. A wake-up that gets lost shows as a
//! deadlock, which shuttle reports. The last tests break the batcher on purpose, to show that these tests can fail.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report, in its helpers too")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_store::batcher::{Batcher, Flaw, Rejected};
use semel_store::group_commit::{CommitError, Driver, GroupCommit, Options};
use semel_store::{Reply, Store, StoreError};
use shuttle::future::{block_on, yield_now};
use shuttle::rand::Rng;
use shuttle::thread;
use support::{command, echo, numbers, reply};

const ROUNDS: usize = 2000;
/// How many forced changes of thread a PCT schedule has: bugs of order rarely need more than three.
const DEPTH: usize = 3;

/// Runs a test under schedules of two kinds: evenly random, and few changes at the worst moments.
fn explore(test: fn()) {
    shuttle::check_random(test, ROUNDS);
    shuttle::check_pct(test, ROUNDS, DEPTH);
}

// --- The batcher

const CAPACITY: usize = 2;

/// Two pushers, a taker and somebody who closes in between. What was accepted is what is taken, in order.
fn exchange(batcher: Batcher<(usize, usize)>) {
    let batcher = Arc::new(batcher);
    let pushers: Vec<_> = (0..2).map(|pusher| spawn_pusher(batcher.clone(), pusher)).collect();
    let closer = {
        let batcher = batcher.clone();
        thread::spawn(move || batcher.close())
    };
    let mut taken = Vec::new();
    while let Some(batch) = block_on(batcher.next_batch(usize::MAX)) {
        assert!((1..=CAPACITY).contains(&batch.len()), "over capacity: {batch:?}");
        taken.extend(batch);
    }
    closer.join().unwrap();
    for (pusher, handle) in pushers.into_iter().enumerate() {
        let accepted = handle.join().unwrap();
        let received: Vec<_> = taken.iter().filter(|item| item.0 == pusher).copied().collect();
        assert_eq!(received, accepted, "what was accepted must be taken, in order");
    }
}

fn spawn_pusher(
    batcher: Arc<Batcher<(usize, usize)>>,
    pusher: usize,
) -> thread::JoinHandle<Vec<(usize, usize)>> {
    thread::spawn(move || {
        let mut accepted = Vec::new();
        for item in (0..3).map(|n| (pusher, n)) {
            match batcher.push(item) {
                Ok(()) => accepted.push(item),
                Err(Rejected::Full(_)) => thread::yield_now(),
                Err(Rejected::Closed(_)) => break,
            }
        }
        accepted
    })
}

#[test]
fn the_batcher_loses_nothing_and_never_overflows() {
    explore(|| exchange(Batcher::new(CAPACITY)));
}

#[test]
fn two_takers_share_what_comes_and_both_end() {
    explore(|| {
        let batcher = Arc::new(Batcher::new(CAPACITY));
        let takers: Vec<_> = (0..2).map(|_| spawn_taker(batcher.clone())).collect();
        let accepted = spawn_pusher(batcher.clone(), 0).join().unwrap();
        batcher.close();
        let mut taken: Vec<_> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, accepted);
    });
}

fn spawn_taker(batcher: Arc<Batcher<(usize, usize)>>) -> thread::JoinHandle<Vec<(usize, usize)>> {
    thread::spawn(move || {
        let mut taken = Vec::new();
        while let Some(batch) = block_on(batcher.next_batch(1)) {
            taken.extend(batch);
        }
        taken
    })
}

/// Somebody who waits for several hears of the last of them, or of the end.
#[test]
fn whoever_waits_for_several_is_woken_by_the_last() {
    explore(|| {
        let batcher = Arc::new(Batcher::new(2 * CAPACITY));
        let pushers: Vec<_> = (0..2).map(|pusher| spawn_pair(batcher.clone(), pusher)).collect();
        block_on(std::future::poll_fn(|cx| batcher.poll_gathered(cx, 4)));
        assert_eq!(batcher.waiting(), 4);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        let closer = {
            let batcher = batcher.clone();
            thread::spawn(move || batcher.close())
        };
        block_on(std::future::poll_fn(|cx| batcher.poll_gathered(cx, 5)));
        closer.join().unwrap();
    });
}

fn spawn_pair(batcher: Arc<Batcher<(usize, usize)>>, pusher: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || (0..2).for_each(|n| batcher.push((pusher, n)).unwrap()))
}

/// Somebody patient and somebody who hurries, in every order: the patient one is taken, and without the queue being closed.
#[test]
fn a_patient_item_is_taken_once_it_is_hurried() {
    explore(|| {
        let batcher = Arc::new(Batcher::new(CAPACITY));
        let pusher = {
            let batcher = batcher.clone();
            thread::spawn(move || {
                batcher.push_patient(0).unwrap();
                batcher.hurry();
            })
        };
        assert_eq!(block_on(batcher.next_batch(1)), Some(vec![0]));
        pusher.join().unwrap();
    });
}

/// A taker that goes away must not take a wake-up with it that another one needs.
#[test]
fn a_taker_that_goes_away_leaves_the_wake_up_to_the_others() {
    explore(|| {
        let batcher = Arc::new(Batcher::new(CAPACITY));
        let leaver = {
            let batcher = batcher.clone();
            shuttle::future::spawn(async move { batcher.next_batch(1).await })
        };
        let stayer = spawn_taker(batcher.clone());
        let pusher = spawn_pusher(batcher.clone(), 0);
        leaver.abort();
        let accepted = pusher.join().unwrap();
        let with_leaver = block_on(leaver).ok().flatten().unwrap_or_default();
        batcher.close();
        let mut taken = stayer.join().unwrap();
        taken.extend(with_leaver);
        taken.sort_unstable();
        assert_eq!(taken, accepted);
    });
}

// --- Group commit

/// What the store was given.
#[derive(Debug, Default)]
struct Log {
    applied: Vec<u64>,
    on_their_way: usize,
    most_on_their_way: usize,
}

/// A store that takes its time and writes down what it applies.
fn slow_store(log: &Arc<Mutex<Log>>, max_batch: usize) -> Arc<dyn Store> {
    let log = log.clone();
    support::store(move |batch| {
        let log = log.clone();
        async move {
            assert!((1..=max_batch).contains(&batch.len()));
            {
                let mut log = log.lock().unwrap();
                log.on_their_way += 1;
                log.most_on_their_way = log.most_on_their_way.max(log.on_their_way);
            }
            some_time().await;
            let numbers = numbers(&batch);
            log.lock().unwrap().applied.extend(&numbers);
            some_time().await;
            log.lock().unwrap().on_their_way -= 1;
            Ok(echo(&numbers))
        }
    })
}

async fn some_time() {
    for _ in 0..shuttle::rand::thread_rng().gen_range(0..3) {
        yield_now().await;
    }
}

fn start(options: Options) -> (GroupCommit, Driver, Arc<Mutex<Log>>) {
    let log = Arc::default();
    let (commit, driver) = GroupCommit::start(slow_store(&log, options.max_batch), options);
    (commit, driver, log)
}

const TIGHT: Options =
    Options { capacity: 3, max_batch: 2, in_flight: 1, stagger: Duration::ZERO, linger: Duration::ZERO };
const CALLERS: u64 = 3;

/// What a caller sent and was told, in the order it sent it.
type Told = Vec<(u64, Result<Reply, CommitError>)>;

/// A caller that sends a pair and then, once that is answered, one more.
fn spawn_caller(commit: GroupCommit, caller: u64) -> thread::JoinHandle<Told> {
    thread::spawn(move || {
        let first = caller * 10;
        let pair = block_on(commit.submit_all(vec![command(first), command(first + 1)]));
        let last = block_on(commit.submit(command(first + 2)));
        pair.into_iter().chain([last]).zip(first..).map(|(outcome, number)| (number, outcome)).collect()
    })
}

fn spawn_callers(commit: &GroupCommit) -> Vec<thread::JoinHandle<Told>> {
    (0..CALLERS).map(|caller| spawn_caller(commit.clone(), caller)).collect()
}

/// What callers were told, over all rounds: a case that never came up was not tested.
#[derive(Debug)]
struct Seen {
    done: AtomicBool,
    overloaded: AtomicBool,
    closed: AtomicBool,
    unknown: AtomicBool,
}

impl Seen {
    const fn nothing() -> Self {
        let [done, overloaded, closed, unknown] = [const { AtomicBool::new(false) }; 4];
        Self { done, overloaded, closed, unknown }
    }

    /// Asserts that exactly these came up: done, overloaded, closed, unknown.
    fn expect(&self, expected: [bool; 4]) {
        let seen = [&self.done, &self.overloaded, &self.closed, &self.unknown];
        assert_eq!(seen.map(|case| case.load(Ordering::Relaxed)), expected, "{self:?}");
    }
}

/// Compares what callers were told with what the store did.
fn check(callers: Vec<thread::JoinHandle<Told>>, log: &Mutex<Log>, seen: &Seen) {
    let told: Vec<Told> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    let log = log.lock().unwrap();
    for (number, outcome) in told.iter().flatten() {
        let times = log.applied.iter().filter(|applied| *applied == number).count();
        let case = match outcome {
            Ok(answer) => {
                assert_eq!((answer, times), (&reply(*number), 1));
                &seen.done
            }
            Err(CommitError::Store(StoreError::Unknown(_))) => {
                assert!(times <= 1);
                &seen.unknown
            }
            Err(told) => {
                assert_eq!(times, 0, "{number}: {told}");
                match told {
                    CommitError::Overloaded(_) => &seen.overloaded,
                    CommitError::Store(StoreError::Closed) => &seen.closed,
                    other => panic!("{number}: {other}"),
                }
            }
        };
        case.store(true, Ordering::Relaxed);
    }
    for caller in told {
        let places = caller.iter().filter_map(|(n, _)| log.applied.iter().position(|applied| applied == n));
        assert!(
            places.is_sorted(),
            "a caller's commands are applied in the order it sent them: {:?}",
            log.applied
        );
    }
}

#[test]
fn every_caller_is_answered_with_what_the_store_did() {
    static SEEN: Seen = Seen::nothing();
    explore(|| {
        let (commit, driver, log) = start(TIGHT);
        let driver = shuttle::future::spawn(driver);
        check(spawn_callers(&commit), &log, &SEEN);
        assert_eq!(log.lock().unwrap().most_on_their_way, 1);
        // The last handle is gone, so the driver ends by itself.
        drop(commit);
        block_on(driver).unwrap();
    });
    SEEN.expect([true, true, false, false]);
}

#[test]
fn closing_answers_all_that_was_accepted_before_it_returns() {
    static SEEN: Seen = Seen::nothing();
    explore(|| {
        let (commit, driver, log) = start(TIGHT);
        let driver = shuttle::future::spawn(driver);
        let callers = spawn_callers(&commit);
        block_on(commit.close());
        let at_close = log.lock().unwrap().applied.clone();
        check(callers, &log, &SEEN);
        assert_eq!(log.lock().unwrap().applied, at_close, "nothing is applied after close has returned");
        block_on(driver).unwrap();
    });
    SEEN.expect([true, true, true, false]);
}

#[test]
fn a_driver_that_is_dropped_midway_leaves_nobody_waiting() {
    static SEEN: Seen = Seen::nothing();
    explore(|| {
        let (commit, driver, log) = start(TIGHT);
        let driver = shuttle::future::spawn(driver);
        let callers = spawn_callers(&commit);
        thread::yield_now();
        driver.abort();
        check(callers, &log, &SEEN);
        block_on(commit.close());
        let later = block_on(commit.submit(command(999)));
        assert!(matches!(later, Err(CommitError::Store(StoreError::Closed))), "{later:?}");
    });
    SEEN.expect([true, true, true, true]);
}

#[test]
fn callers_that_go_away_disturb_nobody() {
    static SEEN: Seen = Seen::nothing();
    explore(|| {
        let (commit, driver, log) = start(TIGHT);
        let driver = shuttle::future::spawn(driver);
        let leaver = {
            let commit = commit.clone();
            shuttle::future::spawn(async move { commit.submit(command(500)).await })
        };
        let callers = spawn_callers(&commit);
        leaver.abort();
        check(callers, &log, &SEEN);
        drop(block_on(leaver));
        drop(commit);
        block_on(driver).unwrap();
    });
    SEEN.expect([true, true, false, false]);
}

#[test]
fn several_commits_may_be_on_their_way_but_no_more_than_allowed() {
    static SEEN: Seen = Seen::nothing();
    static MOST: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let (commit, driver, log) =
            start(Options { capacity: 6, max_batch: 1, in_flight: 2, ..Options::default() });
        let driver = shuttle::future::spawn(driver);
        let callers = (0..4).map(|caller| spawn_single(&commit, caller)).collect();
        // Closing waits for all of them, not only for the last one that was taken.
        block_on(commit.close());
        check(callers, &log, &SEEN);
        MOST.fetch_max(log.lock().unwrap().most_on_their_way, Ordering::Relaxed);
        block_on(driver).unwrap();
    });
    assert_eq!(MOST.load(Ordering::Relaxed), 2);
    SEEN.expect([true, false, true, false]);
}

fn spawn_single(commit: &GroupCommit, caller: u64) -> thread::JoinHandle<Told> {
    let commit = commit.clone();
    thread::spawn(move || vec![(caller, block_on(commit.submit(command(caller))))])
}

// --- These tests can fail

#[test]
#[should_panic(expected = "deadlock")]
fn a_batcher_that_loses_wake_ups_is_caught() {
    explore(|| exchange(Batcher::broken(CAPACITY, Flaw::LateWaker)));
}

#[test]
#[should_panic(expected = "over capacity")]
fn a_batcher_that_overflows_is_caught() {
    // Nobody closes before all is pushed, so that the other half of this flaw is left to the next test.
    explore(|| {
        let batcher = Arc::new(Batcher::broken(CAPACITY, Flaw::LatePush));
        let pushers: Vec<_> = (0..2).map(|pusher| spawn_pusher(batcher.clone(), pusher)).collect();
        pushers.into_iter().for_each(|pusher| drop(pusher.join().unwrap()));
        assert!(batcher.waiting() <= CAPACITY, "over capacity: {}", batcher.waiting());
    });
}

#[test]
#[should_panic(expected = "what was accepted must be taken")]
fn a_batcher_that_accepts_what_nobody_will_take_is_caught() {
    explore(|| {
        let batcher = Arc::new(Batcher::broken(CAPACITY, Flaw::LatePush));
        let pusher = spawn_pusher(batcher.clone(), 0);
        batcher.close();
        let mut taken = Vec::new();
        while let Some(batch) = block_on(batcher.next_batch(1)) {
            taken.extend(batch);
        }
        assert_eq!(taken, pusher.join().unwrap(), "what was accepted must be taken");
    });
}
