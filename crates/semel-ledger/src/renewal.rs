//! Keeps a claim while its effect runs, and says when it is lost.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Ledger;
use crate::store::{Hold, Holder, Store};

/// A task that renews a claim until this value is dropped. It runs apart from the effect, so that an effect that blocks its
/// thread does not lose its claim.
#[derive(Debug)]
pub(crate) struct Renewal {
    task: JoinHandle<()>,
    lost: oneshot::Receiver<()>,
}

impl Renewal {
    /// Renews from now on. `granted` is when the claim was asked for, on this machine's monotonic clock: the lease cannot
    /// have begun earlier.
    pub(crate) fn start<S: Store>(ledger: &Ledger<S>, holder: Holder, granted: Instant) -> Self {
        let (tell, lost) = oneshot::channel();
        let ledger = ledger.clone();
        let task = tokio::spawn(async move {
            keep(&ledger, &holder, granted).await;
            // The receiver is gone if the effect is: then nobody needs to know.
            tell.send(()).ok();
        });
        Self { task, lost }
    }

    /// Comes back when the claim is lost, and never if it is not.
    pub(crate) async fn lost(&mut self) {
        if (&mut self.lost).await.is_err() {
            // The task was cancelled with its runtime; nothing is known to be lost.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns when the claim is somebody else's, or might be: the lease ended and the store could not be asked.
async fn keep<S: Store>(ledger: &Ledger<S>, holder: &Holder, granted: Instant) {
    let lease = ledger.inner.lease;
    let mut ends = granted + lease;
    let mut pause = lease / 3;
    loop {
        tokio::time::sleep(pause).await;
        let asked = Instant::now();
        match ledger.patient(ledger.inner.store.renew(holder, lease)).await {
            Ok(Hold::Held(_)) => (ends, pause) = (asked + lease, lease / 3),
            Ok(Hold::Lost) => return,
            Err(error) => {
                tracing::warn!(target: "semel_ledger", scope = %holder.scope, %error, "a lease was not renewed");
                pause = (lease / 10).max(Duration::from_millis(5));
            }
        }
        if Instant::now() >= ends {
            return;
        }
    }
}
