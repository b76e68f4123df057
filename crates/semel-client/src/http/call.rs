//! Any request of the API, for tools that do what this crate has no method for.

use std::fmt::Display;
use std::time::Duration;

use ::http::Method;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::address::segment;
use super::exchange::Ask;
use super::{Client, Error};

/// A request: what is to be done, to what, with which body.
///
/// ```no_run
/// # async fn example() -> Result<(), semel_client::http::Error> {
/// use semel_client::http::{Call, Client};
///
/// let client = Client::new("http://127.0.0.1:7477")?;
/// let dead = Call::get(&["v1", "queues", "orders", "dead"]).query("groupBy", "error");
/// println!("{}", client.call(&dead).await?.text());
/// client.call(&Call::post(&["v1", "queues", "orders", "pause"])).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    path: String,
    has_query: bool,
    body: Bytes,
    hold: Duration,
    once: bool,
}

impl Call {
    /// Reads something. What is in the path is encoded here.
    pub fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// Does something.
    pub fn post(path: &[&str]) -> Self {
        Self::new(Method::POST, path)
    }

    /// Makes or changes something.
    pub fn put(path: &[&str]) -> Self {
        Self::new(Method::PUT, path)
    }

    /// Takes something away.
    pub fn delete(path: &[&str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    fn new(method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|name| format!("/{}", segment(name))).collect();
        Self { method, path, has_query: false, body: Bytes::new(), hold: Duration::ZERO, once: false }
    }

    /// One more parameter.
    #[must_use]
    pub fn query(mut self, name: &str, value: impl Display) -> Self {
        let mark = if self.has_query { '&' } else { '?' };
        self.has_query = true;
        self.path.push(mark);
        self.path.push_str(&segment(name));
        self.path.push('=');
        self.path.push_str(&segment(&value.to_string()));
        self
    }

    /// The body, which is JSON already.
    #[must_use]
    pub fn json(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// The body.
    pub fn body(self, body: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        let json = serde_json::to_vec(body);
        Ok(self.json(json.map_err(|error| Error::Setup(format!("a request cannot be written: {error}")))?))
    }

    /// The server was asked to hold its answer for so long.
    #[must_use]
    pub fn holding(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Doing it twice would do it twice: it is not sent again once it may have happened.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    pub(super) fn ask(&self, client: &Client) -> Result<Ask, Error> {
        let ask = Ask::new(client, self.method.clone(), &self.path, self.body.clone())?;
        let ask = ask.holding(self.hold);
        Ok(if self.once { ask.once() } else { ask })
    }
}

/// The answer to a call that the server said yes to.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl Reply {
    /// Its status, from 200 to 299.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The body, byte for byte; empty if there is none.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The body as text.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The body, read as JSON.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Answer(error.to_string()))
    }
}

impl Client {
    /// Sends a call until it is answered, refused, or the deadline is over.
    pub async fn call(&self, call: &Call) -> Result<Reply, Error> {
        self.ask(&call.ask(self)?).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_in_a_path_or_a_query_stays_there() {
        let call = Call::get(&["v1", "keys", "a/b?c=d&e"]).query("metadata.x y", "1&2").query("limit", 3);
        assert_eq!(call.path, "/v1/keys/a%2Fb%3Fc%3Dd%26e?metadata.x%20y=1%262&limit=3");
    }
}
