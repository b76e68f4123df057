//! What happens when a delivery reaches a boundary.

use std::pin::Pin;
use std::sync::Arc;

use crate::Boundary;

/// Called at every boundary that a delivery reaches, in its own task. A delivery whose hook does not come back is stopped
/// there.
pub type Hook = Arc<dyn Fn(Boundary) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

tokio::task_local! {
    static HOOK: Hook;
}

/// Runs a delivery with a hook. It is known to whatever the delivery awaits itself, not to tasks that it spawns.
pub async fn hooked<T>(hook: Hook, delivery: impl Future<Output = T>) -> T {
    HOOK.scope(hook, delivery).await
}

pub(crate) async fn reach(boundary: Boundary) {
    if let Ok(hook) = HOOK.try_with(Clone::clone) {
        hook(boundary).await;
    }
}
