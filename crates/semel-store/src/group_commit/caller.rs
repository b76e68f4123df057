//! The way back to a caller: for the answer to one command, or for those to all of a parcel, which are given together.
//!
//! A command that is dropped unanswered, as by a driver that goes away, is answered by that: its outcome is not known.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use super::Outcome;
use crate::error::StoreError;

/// Whoever waits for the answer to a command.
#[derive(Debug)]
pub(super) enum Caller {
    /// They sent it alone.
    Alone(oneshot::Sender<Outcome>),
    /// They sent it with others, at this place among them.
    Among(Arc<Parcel>, usize),
}

/// The answers to what was sent at once. Whoever drops it last, having given its last answer, sends them.
#[derive(Debug)]
pub(super) struct Parcel {
    number: u64,
    answers: Mutex<Vec<Option<Outcome>>>,
    sender: Option<oneshot::Sender<Vec<Option<Outcome>>>>,
}

/// Where the answers to a parcel come in.
pub(super) struct Answers(oneshot::Receiver<Vec<Option<Outcome>>>);

impl Caller {
    /// A caller with one command, and where its answer comes in.
    pub(super) fn alone() -> (Self, oneshot::Receiver<Outcome>) {
        let (caller, answer) = oneshot::channel();
        (Self::Alone(caller), answer)
    }

    /// The number of what the command was sent with; `None` if it came alone.
    pub(super) fn parcel(&self) -> Option<u64> {
        match self {
            Self::Alone(_) => None,
            Self::Among(parcel, _) => Some(parcel.number),
        }
    }

    /// Gives a caller its answer. One that has gone away does not hear it, and need not: its command took its course.
    pub(super) fn tell(self, outcome: Outcome) {
        match self {
            Self::Alone(caller) => drop(caller.send(outcome)),
            Self::Among(parcel, place) => {
                if let Some(answer) = parcel.answers().get_mut(place) {
                    *answer = Some(outcome);
                }
            }
        }
    }
}

impl Parcel {
    /// Callers for `count` commands that are sent at once, and where their answers come in.
    pub(super) fn of(number: u64, count: usize) -> (impl Iterator<Item = Caller>, Answers) {
        let (sender, answers) = oneshot::channel();
        let unanswered = Mutex::new(std::iter::repeat_with(|| None).take(count).collect());
        let parcel = Arc::new(Self { number, answers: unanswered, sender: Some(sender) });
        let callers = (0..count).map(move |place| Caller::Among(parcel.clone(), place));
        (callers, Answers(answers))
    }

    fn answers(&self) -> MutexGuard<'_, Vec<Option<Outcome>>> {
        self.answers.lock().expect("nothing panics while the parcel's lock is held")
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        let answers = std::mem::take(&mut *self.answers());
        if let Some(sender) = self.sender.take() {
            // A caller that has gone away is no concern of ours.
            drop(sender.send(answers));
        }
    }
}

impl Answers {
    /// Waits for all of them.
    pub(super) async fn heard(self) -> Vec<Outcome> {
        let answers = self.0.await.unwrap_or_default();
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }
}

/// Waits for the answer to one command.
pub(super) async fn heard(answer: oneshot::Receiver<Outcome>) -> Outcome {
    answer.await.unwrap_or_else(|_| lost())
}

/// An answer that can no longer come belongs to a commit whose driver went away in the middle: those still in the queue
/// were told.
fn lost() -> Outcome {
    Err(StoreError::Unknown("group commit ended while this was on its way to the store".into()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_commit::CommitError;

    #[tokio::test]
    async fn the_answers_to_a_parcel_come_in_its_order_and_what_is_dropped_is_unknown() {
        let (callers, answers) = Parcel::of(7, 3);
        let [first, second, third] = callers.collect::<Vec<_>>().try_into().expect("there are three");
        assert_eq!((first.parcel(), third.parcel()), (Some(7), Some(7)));
        third.tell(Err(StoreError::Closed.into()));
        drop(second);
        first.tell(Err(StoreError::Failed("full".into()).into()));
        let heard = answers.heard().await;
        assert!(matches!(
            &heard[..],
            [
                Err(CommitError::Store(StoreError::Failed(_))),
                Err(CommitError::Store(StoreError::Unknown(_))),
                Err(CommitError::Store(StoreError::Closed))
            ]
        ));
    }

    #[tokio::test]
    async fn a_parcel_of_nothing_is_answered_at_once() {
        let (callers, answers) = Parcel::of(0, 0);
        drop(callers);
        assert!(answers.heard().await.is_empty());
    }
}
