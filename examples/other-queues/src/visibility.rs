//! A queue in this process that behaves like SQS: a message that was received is invisible for a while, and comes again
//! unless it was deleted. What is said here of `delete` and `change_visibility` holds for `DeleteMessage` and
//! `ChangeMessageVisibility`.
//!
//! | the verdict | the queue is told |
//! |---|---|
//! | applied, replayed | `delete` |
//! | in progress | `change_visibility` to what is left of the other delivery's lease |
//! | failed, may be tried again | `change_visibility` to the backoff |
//! | failed for good | sent to the dead letters, then `delete` |
//!
//! The key is a message attribute that the *sender* sets. The message id is no key: a sender that times out and sends again
//! makes a second message with another id. Nor is the receipt handle, which changes with every delivery.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_ledger::handler::{Disposition, Job};
use tokio::time::Instant;

use crate::{MAX_ATTEMPTS, backoff};

/// A queue in memory.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: Vec<Message>,
    dead: Vec<Received>,
    receipts: u64,
}

#[derive(Debug)]
struct Message {
    content: Received,
    visible_from: Instant,
}

/// A message as a worker gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The attribute `idempotency-key`.
    pub key: Option<String>,
    /// The body.
    pub payload: Vec<u8>,
    /// Of this delivery: what deletes the message, unless it was delivered again since.
    pub receipt: u64,
    /// How often it was delivered, this time included.
    pub receives: u32,
}

impl Queue {
    /// Appends a message.
    pub fn send(&self, key: Option<&str>, payload: &[u8]) {
        let content =
            Received { key: key.map(str::to_owned), payload: payload.to_vec(), receipt: 0, receives: 0 };
        self.state().messages.push(Message { content, visible_from: Instant::now() });
    }

    /// The first visible message, which nobody else sees for so long.
    pub fn receive(&self, visibility: Duration) -> Option<Received> {
        let (now, mut state) = (Instant::now(), self.state());
        state.receipts += 1;
        let receipt = state.receipts;
        let message = state.messages.iter_mut().find(|message| message.visible_from <= now)?;
        message.visible_from = now + visibility;
        message.content.receipt = receipt;
        message.content.receives += 1;
        Some(message.content.clone())
    }

    /// Deletes a message; `false` if it was delivered to somebody else since, or is gone.
    pub fn delete(&self, receipt: u64) -> bool {
        let mut state = self.state();
        let before = state.messages.len();
        state.messages.retain(|message| message.content.receipt != receipt);
        state.messages.len() < before
    }

    /// Makes a message visible after so long; `false` as from [`Self::delete`].
    pub fn change_visibility(&self, receipt: u64, after: Duration) -> bool {
        let mut state = self.state();
        let message = state.messages.iter_mut().find(|message| message.content.receipt == receipt);
        message.map(|message| message.visible_from = Instant::now() + after).is_some()
    }

    /// Works on the next visible message, and says what became of it; `None` if there is none.
    pub async fn work_one(
        &self,
        visibility: Duration,
        handler: &impl AsyncFn(&Job<'_>) -> Disposition,
    ) -> Option<Disposition> {
        let message = self.receive(visibility)?;
        // A receipt handle of SQS does not grow, so it is no token.
        let job = Job { key: message.key.as_deref(), token: None, payload: &message.payload };
        let disposition = handler(&job).await;
        // That it was delivered again meanwhile is no error: whoever has it now is told by the ledger what became of it.
        let _still_ours = self.settle(message, &disposition);
        Some(disposition)
    }

    fn settle(&self, message: Received, disposition: &Disposition) -> bool {
        let receipt = message.receipt;
        match disposition {
            Disposition::Ack { .. } => self.delete(receipt),
            // SQS has counted this delivery already: leave room for such in the queue's maximum.
            Disposition::Defer { until } => self.change_visibility(receipt, until.remaining),
            Disposition::Fail { retryable: true, .. } if message.receives < MAX_ATTEMPTS => {
                self.change_visibility(receipt, backoff(message.receives - 1))
            }
            Disposition::Fail { .. } => {
                self.state().dead.push(message);
                self.delete(receipt)
            }
        }
    }

    /// Messages that were given up.
    pub fn dead(&self) -> Vec<Received> {
        self.state().dead.clone()
    }

    /// How many messages there are, visible or not.
    pub fn len(&self) -> usize {
        self.state().messages.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
