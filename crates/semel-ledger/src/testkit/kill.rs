//! Stops a delivery at a boundary, and drops it there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::hook::{Hook, hooked};
use crate::Boundary;

/// Runs a delivery up to the given turn of a boundary, and drops it there. `false` if it came to its end before.
pub(super) async fn at<T>(boundary: Boundary, turn: u64, delivery: impl Future<Output = T>) -> bool {
    let (turns, reached) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let tell = reached.clone();
    let hook: Hook = Arc::new(move |here| {
        let stop = here == boundary && turns.fetch_add(1, Ordering::SeqCst) + 1 == turn;
        if stop {
            tell.notify_one();
        }
        Box::pin(async move {
            if stop {
                std::future::pending::<()>().await;
            }
        })
    });
    tokio::select! {
        biased;
        () = reached.notified() => true,
        // The queue is told after this, so whoever dies now has come as far as a handler can.
        _ = hooked(hook, delivery) => boundary == Boundary::BeforeAck && turn == 1,
    }
}
