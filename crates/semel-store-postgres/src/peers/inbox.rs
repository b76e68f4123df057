//! What was heard and not yet asked for. It is bounded, because wake-ups for the same queue are one.

use std::sync::{Mutex, MutexGuard};

use semel_store::shared::{Heard, Wakes};
use tokio::sync::Notify;

/// What was heard.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Whether this node hears, as far as it is known.
    hears: Option<bool>,
    /// Whether that is still to be told.
    changed: bool,
    wakes: Option<Wakes>,
}

impl Inbox {
    /// Says whether this node hears the others. What it is already known to do is not said again.
    pub(super) fn hears(&self, hears: bool) {
        let mut state = self.lock();
        if state.hears != Some(hears) {
            state.hears = Some(hears);
            state.changed = true;
            self.filled.notify_one();
        }
    }

    /// Takes in what another node told, be it only that it is there.
    pub(super) fn add(&self, wakes: Wakes) {
        let mut state = self.lock();
        state.wakes.get_or_insert_default().merge(wakes);
        self.filled.notify_one();
    }

    /// Waits for the next thing to tell. Dropping the future loses nothing.
    pub(super) async fn next(&self) -> Heard {
        loop {
            if let Some(heard) = self.take() {
                return heard;
            }
            self.filled.notified().await;
        }
    }

    fn take(&self) -> Option<Heard> {
        let mut state = self.lock();
        // Others may be heard before this node has heard itself.
        state.hears?;
        if std::mem::take(&mut state.changed) {
            return Some(if state.hears == Some(true) { Heard::Hearing } else { Heard::Deaf });
        }
        state.wakes.take().map(Heard::Wakes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is never held across a panic")
    }
}

#[cfg(test)]
mod tests {
    use semel_core::name::QueueName;

    use super::*;

    fn ready(name: &str, jobs: u32) -> Wakes {
        Wakes { ready: [(QueueName::try_from(name).unwrap(), jobs)].into(), ..Wakes::default() }
    }

    #[tokio::test]
    async fn wakes_are_gathered_and_a_change_of_hearing_comes_first() {
        let inbox = Inbox::default();
        inbox.hears(true);
        inbox.hears(true);
        assert_eq!(inbox.next().await, Heard::Hearing);
        inbox.add(ready("q", 1));
        inbox.add(ready("q", 2));
        inbox.hears(false);
        assert_eq!(inbox.next().await, Heard::Deaf);
        assert_eq!(inbox.next().await, Heard::Wakes(ready("q", 3)));
        inbox.add(Wakes::default());
        assert_eq!(inbox.next().await, Heard::Wakes(Wakes::default()), "somebody is there");
        assert_eq!(inbox.take(), None);
    }
}
