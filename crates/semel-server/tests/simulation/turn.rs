//! One simulation at a time, each from the same start.
//!
//! Tokio numbers tasks across the whole process, and when a host crashes the numbers decide in which order its tasks are
//! dropped: who hears of the crash first, and what is written down first. A simulation that is to be the same every time
//! must find the numbers the same, as far as they matter, and be the only one to use them up.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tasks are dropped by their number modulo a small power of two, which is 4 in this version of tokio.
const ROUND: u64 = 64;

/// Held by whoever simulates.
pub(crate) type Turn = MutexGuard<'static, ()>;

/// Waits for its turn, and uses up numbers until they are where every simulation finds them.
pub(crate) fn take() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    // A simulation that panicked has left nothing behind that the next one uses.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    while !runtime.spawn(async {}).id().to_string().parse::<u64>().unwrap().is_multiple_of(ROUND) {}
    turn
}
