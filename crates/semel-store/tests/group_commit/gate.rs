//! A store that a test holds back.

use std::sync::{Arc, Mutex};

use semel_store::Reply;
use semel_store::group_commit::{CommitError, GroupCommit, Options};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use crate::support::{command, echo, numbers, store};

pub(crate) type Told = Result<Reply, CommitError>;

/// A store whose commits wait until the test lets them through.
#[derive(Clone)]
pub(crate) struct Gate {
    open: Arc<Semaphore>,
    batches: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Gate {
    /// Group commit over a gated store, its driver running.
    pub(crate) fn start(options: Options) -> (GroupCommit, Gate, JoinHandle<()>) {
        let gate = Gate { open: Arc::new(Semaphore::new(0)), batches: Arc::default() };
        let inner = gate.clone();
        let store = store(move |batch| {
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
    pub(crate) fn let_through(&self, count: usize) {
        self.open.add_permits(count);
    }

    /// The batches that have reached the store.
    pub(crate) fn batches(&self) -> Vec<Vec<u64>> {
        self.batches.lock().unwrap().clone()
    }

    pub(crate) async fn reached_by(&self, count: usize) {
        while self.batches().len() < count {
            yield_now().await;
        }
    }
}

pub(crate) fn submit(commit: &GroupCommit, number: u64) -> JoinHandle<Told> {
    let commit = commit.clone();
    tokio::spawn(async move { commit.submit(command(number)).await })
}

pub(crate) async fn until_waiting(commit: &GroupCommit, count: usize) {
    while commit.waiting() < count {
        yield_now().await;
    }
}

/// Sends 0, which goes on its way and stays there, and then 1 to `count`, which gather.
pub(crate) async fn gather(commit: &GroupCommit, gate: &Gate, count: u64) -> Vec<JoinHandle<Told>> {
    let mut callers = vec![submit(commit, 0)];
    gate.reached_by(1).await;
    for number in 1..=count {
        callers.push(submit(commit, number));
        until_waiting(commit, usize::try_from(number).unwrap()).await;
    }
    callers
}
