//! A running server, as commands talk to it: where it is, who we are, and what its refusals mean for a script.

mod args;
mod confirm;
mod span;
mod trouble;
pub(crate) mod wire;

use std::time::Duration;

pub(crate) use args::ServerArgs;
pub(crate) use confirm::{Confirm, is_there_somebody, says_yes};
use semel_client::http::{Call, Client, Event, Events, Reply};
use serde::de::DeserializeOwned;
pub(crate) use span::Span;
use tokio::runtime::{Builder, Runtime};
pub(crate) use trouble::Trouble;

use crate::failure::Failure;

/// All tries of a call. A person waits that long for a busy server before wondering; a script gets exit code 3 and knows
/// better how long to go on.
const DEADLINE: Duration = Duration::from_secs(10);

/// The longest that a server holds an answer.
pub(crate) const HOLD_MAX: u64 = 60;

/// A server, ready to be asked.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    client: Client,
    server: String,
}

impl Remote {
    /// Where it is, as it was given.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The client, for what it has methods for; [`Remote::failure`] turns its errors into ours.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// For `map_err`: an error of the client as a failure of the command.
    pub(crate) fn failure(&self, error: &semel_client::http::Error) -> Failure {
        Trouble::of(&self.server, error).into()
    }

    /// The server said something that it should not.
    pub(crate) fn odd(&self, words: &impl ToString) -> Failure {
        self.failure(&semel_client::http::Error::Answer(words.to_string()))
    }

    /// What a command is about is not there.
    pub(crate) fn absent(words: String) -> Failure {
        Trouble::absence(words).into()
    }

    /// Sends a call: the answer, byte for byte.
    pub(crate) async fn call(&self, call: &Call) -> Result<Reply, Failure> {
        self.client.call(call).await.map_err(|error| self.failure(&error))
    }

    /// Sends a call about something that need not be there.
    pub(crate) async fn look_up(&self, call: &Call) -> Result<Option<Reply>, Failure> {
        match self.call(call).await {
            Err(Failure::Server(trouble)) if trouble.is_absence() => Ok(None),
            other => other.map(Some),
        }
    }

    /// Sends a call and reads its answer.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Failure> {
        let reply = self.call(call).await?;
        self.read(&reply)
    }

    /// Reads an answer.
    pub(crate) fn read<T: DeserializeOwned>(&self, reply: &Reply) -> Result<T, Failure> {
        reply.read().map_err(|error| self.failure(&error))
    }

    /// Opens a stream of events.
    pub(crate) async fn events(&self, call: &Call) -> Result<Events, Failure> {
        self.client.events(call).await.map_err(|error| self.failure(&error))
    }

    /// The next event; `None` when the server has ended the stream.
    pub(crate) async fn next(&self, events: &mut Events) -> Result<Option<Event>, Failure> {
        events.next().await.map_err(|error| self.failure(&error))
    }
}

/// A runtime of one thread: a command asks one thing after the other.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::io("start a runtime"))
}
