//! The store's own progress, on our bar.

use semel_store_embedded as embedded;

use crate::progress::Progress;

/// Shows each step of a long task as it comes.
#[derive(Debug)]
pub(crate) struct Watch {
    progress: Progress,
    step: Option<&'static str>,
}

impl Watch {
    /// Waits for the first step.
    pub(crate) fn new() -> Self {
        Self { progress: Progress::new(), step: None }
    }

    /// What the store calls.
    pub(crate) fn see(&mut self, seen: embedded::Progress) {
        if self.step != Some(seen.step) {
            self.step = Some(seen.step);
            self.progress.start(seen.step, seen.total);
        }
        self.progress.set(seen.done);
    }

    /// Makes room for the result.
    pub(crate) fn finish(mut self) {
        self.progress.finish();
    }
}
