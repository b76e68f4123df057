//! How far a long task has come, for whoever waits for it.

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: &'static str,
    /// How much of it is done.
    pub done: u64,
    /// How much there is; an estimate.
    pub total: u64,
}

/// Who wants to know how far it has come.
pub type Watcher<'a> = &'a mut (dyn FnMut(Progress) + Send);
