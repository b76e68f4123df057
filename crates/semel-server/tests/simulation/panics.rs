//! Panics of the simulated hosts. A panic of a task ends that task and nobody else hears of it, so they are counted.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// A simulation runs on one thread, so the panics of its thread are its own.
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

/// Begins to count.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            SEEN.set(SEEN.get() + 1);
            usual(info);
        }));
    });
    SEEN.set(0);
}

/// How many there were since.
pub(crate) fn seen() -> u32 {
    SEEN.get()
}
