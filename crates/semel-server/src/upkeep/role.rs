//! The skeleton of every role: run once, wait, run again. An error is told and waited out; no role dies of one.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semel_core::time::{Millis, Timestamp};
use semel_store::group_commit::CommitError;
use semel_store::{Reply, StoreError};
use tokio::sync::watch;

use crate::service::Service;

/// The first wait after an error. It doubles with each error in a row.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);

/// The longest wait after an error: a store that comes back is kept up again within half a minute.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// When a role wants to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// At once, after others had their turn.
    Soon,
    /// After some time.
    In(Millis),
    /// At a time of the store's clock.
    At(Timestamp),
    /// At a time of the store's clock, or before that when a schedule or a replay task is made, changed or taken away.
    AtOrTold(Timestamp),
}

/// Why a role could not do its work this time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// A change was not made, or is not known to be.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The archive could not be written. What was to be archived is still in the store.
    #[error("the archive cannot be written at {}: {error}; check the directory and its disk", .path.display())]
    Archive {
        /// Where.
        path: PathBuf,
        /// What went wrong.
        error: std::io::Error,
    },
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Commit(error.into())
    }
}

impl Trouble {
    /// A store that breaks its law leaves it open what it did.
    pub(crate) fn wrong_reply(command: &str, reply: &Reply) -> Self {
        StoreError::Unknown(format!("the store answered a {command} with {reply:?}")).into()
    }
}

/// Something that only time brings about.
pub(crate) trait Role: Send + 'static {
    /// What it is called, in logs and among nodes.
    const NAME: &'static str;

    /// Whether one node does this for all that share its store.
    fn is_for_all_nodes(&self) -> bool;

    /// Does what is due, a bounded piece of it, and says when to come back.
    fn run_once(&mut self) -> impl Future<Output = Result<Next, Trouble>> + Send;
}

/// Runs a role until the service stops. A run that has begun is finished first: each is short, and one that was cut in
/// half would be done again after the next start.
pub(super) async fn tend<R: Role>(mut role: R, service: Arc<Service>) {
    let mut failures = 0;
    let mut tasks = service.news.tasks.subscribe();
    while !service.stop.is_stopped() {
        if role.is_for_all_nodes() && !service.peers.roles().holds(R::NAME) {
            until_stopped(&service, service.peers.roles().until_held(R::NAME)).await;
            continue;
        }
        tasks.mark_unchanged();
        let began = service.store.now();
        match role.run_once().await {
            Ok(next) => {
                failures = 0;
                until_stopped(&service, come_to(&service, began, next, &mut tasks)).await;
            }
            Err(trouble) => {
                let pause = backoff(failures);
                failures = failures.saturating_add(1);
                tracing::warn!(role = R::NAME, error = %trouble, again_in = ?pause, "upkeep could not do its work");
                until_stopped(&service, tokio::time::sleep(pause)).await;
            }
        }
    }
}

async fn until_stopped(service: &Service, wait: impl Future<Output = ()>) {
    tokio::select! {
        () = service.stop.stopped() => {}
        () = wait => {}
    }
}

/// A span counts from the beginning of the run: what became due while it ran is not put off by a whole span more.
async fn come_to(service: &Service, began: Timestamp, next: Next, tasks: &mut watch::Receiver<u64>) {
    match next {
        Next::Soon => tokio::task::yield_now().await,
        Next::In(span) => service.alarm.until(began.plus(span)).await,
        Next::At(at) => service.alarm.until(at).await,
        Next::AtOrTold(at) => tokio::select! {
            () = service.alarm.until(at) => {}
            // News live as long as the service, so this cannot fail.
            _ = tasks.changed() => {}
        },
    }
}

fn backoff(failures: u32) -> Duration {
    // Past ten doublings it is the longest anyway.
    BACKOFF_FIRST.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::sync::mpsc;

    use super::super::stage::Stage;
    use super::*;

    /// A role that does as it is told, and says each time that it ran.
    struct Scripted {
        script: VecDeque<Result<Next, Trouble>>,
        ran: mpsc::UnboundedSender<()>,
    }

    impl Role for Scripted {
        const NAME: &'static str = "scripted";

        fn is_for_all_nodes(&self) -> bool {
            true
        }

        async fn run_once(&mut self) -> Result<Next, Trouble> {
            self.ran.send(()).unwrap();
            self.script.pop_front().unwrap_or(Ok(Next::In(Millis::from_days(1))))
        }
    }

    #[tokio::test]
    async fn an_error_is_waited_out_and_the_clock_says_when_to_run_again() {
        let stage = Stage::new().await;
        let (ran, mut heard) = mpsc::unbounded_channel();
        let at = Next::At(stage.now().plus(Millis::from_secs(20)));
        let script =
            [Err(StoreError::Closed.into()), Ok(Next::Soon), Ok(Next::In(Millis::from_secs(9))), Ok(at)];
        let task = tokio::spawn(tend(Scripted { script: script.into(), ran }, stage.service.clone()));
        for run in ["the first", "after the error", "soon"] {
            assert!(heard.recv().await.is_some(), "{run}");
        }
        for (early, rest) in [(8, 1), (10, 1)] {
            stage.alarm.advance(Millis::from_secs(early));
            // Twice: once for the role to wake, once for it to run if it wrongly does.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            assert!(heard.try_recv().is_err(), "it is not time yet");
            stage.alarm.advance(Millis::from_secs(rest));
            assert!(heard.recv().await.is_some());
        }
        stage.stopper.stop();
        task.await.unwrap();
    }

    #[test]
    fn the_waits_after_errors_grow_to_a_limit() {
        assert_eq!(backoff(0), BACKOFF_FIRST);
        assert_eq!(backoff(3), BACKOFF_FIRST * 8);
        assert_eq!(backoff(u32::MAX), BACKOFF_MAX);
    }
}
