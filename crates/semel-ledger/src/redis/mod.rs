//! Entries in Redis: a hash for each, and scripts that nothing interrupts.
//!
//! Redis forgets more easily than a database: see `docs/ledger/redis.md` for what to configure, and for what is lost when
//! it fails over. What can be noticed is: a worker whose Redis was emptied (FLUSHALL, a restart without persistence) gets
//! errors until it is started again, instead of entries that look new.

mod connection;
mod reply;
mod scripts;
mod store;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{Client, RedisError};

pub use connection::Reconnecting;

use crate::store::{Holder, Owner};
use crate::time::millis;
use crate::{Scope, StoreError, StoreErrorKind};
use scripts::Scripts;

/// What names begin with, unless [`Redis::prefix`] says otherwise.
const PREFIX: &str = "semel-ledger:";

/// Longer than any retry or replay, and far from where Redis and Lua run out of digits.
const LONGEST: i64 = 1_000 * 365 * 24 * 3_600 * 1_000;

/// A store in Redis, over one connection that is shared by all its clones.
#[derive(Debug, Clone)]
pub struct Redis<C = Reconnecting> {
    connection: C,
    prefix: Arc<str>,
    scripts: Scripts,
    /// What `<prefix>layout` was when this program started.
    layout: Arc<OnceLock<String>>,
}

impl Redis {
    /// Opens a Redis by its URL: `redis://127.0.0.1/`, `redis+unix:///run/redis.sock`. It is connected to when it is first
    /// needed, and again when the connection was lost.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let client = Client::open(url).map_err(failed("reading the URL of Redis"))?;
        Ok(Self::over(Reconnecting::to(client)))
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Redis<C> {
    /// Over a connection that the application has: a `ConnectionManager`, a `ClusterConnection`. It has to have a time-out.
    pub fn over(connection: C) -> Self {
        let (scripts, layout) = (Scripts::new(), Arc::default());
        Self { connection, prefix: PREFIX.into(), scripts, layout }
    }

    /// Another beginning of all names: two ledgers in one Redis do not see each other.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The name of an entry. No step has a colon, and the length tells where the consumer ends.
    fn entry(&self, scope: &Scope) -> String {
        let (prefix, consumer) = (&self.prefix, scope.consumer.as_str());
        format!("{prefix}{}:{consumer}:{}:{}", consumer.len(), scope.step, scope.key)
    }

    fn layout_name(&self) -> String {
        format!("{}layout", self.prefix)
    }

    /// What the layout has to be, as this program found it.
    fn expected_layout(&self) -> Result<&str, StoreError> {
        let missing = || StoreError::new(StoreErrorKind::Schema, "Redis was not looked at yet");
        self.layout.get().map(String::as_str).ok_or_else(missing)
    }

    /// The entries that this answer is about are only those that there were if the layout is.
    fn check_layout(&self, found: Option<&str>) -> Result<(), StoreError> {
        if found == Some(self.expected_layout()?) {
            return Ok(());
        }
        Err(StoreError::new(
            StoreErrorKind::Refused,
            "Redis has lost its entries since this worker started (FLUSHALL, or a restart without persistence), so nobody \
             knows which effects have happened; find out, then start the workers again",
        ))
    }
}

/// Milliseconds as scripts take them.
fn span(duration: Duration) -> i64 {
    millis(duration).min(LONGEST)
}

/// The arguments that every script takes of a holder.
fn credentials(holder: &Holder) -> [String; 2] {
    [holder.owner.to_string(), holder.token.to_string()]
}

/// `map_err(failed("claiming"))`: what an error of Redis means, by what to do about it.
fn failed(act: &'static str) -> impl Fn(RedisError) -> StoreError {
    move |error| StoreError::caused(kind(&error), format!("{act} failed"), error)
}

fn kind(error: &RedisError) -> StoreErrorKind {
    use ::redis::{ErrorKind as Kind, ServerErrorKind as Server};
    match (error.kind(), error.code()) {
        (_, Some("OOM" | "MISCONF" | "NOAUTH" | "WRONGPASS" | "NOREPLICAS")) => StoreErrorKind::Refused,
        (Kind::Server(Server::ReadOnly | Server::NoPerm), _) => StoreErrorKind::Refused,
        (Kind::AuthenticationFailed | Kind::InvalidClientConfig, _) => StoreErrorKind::Refused,
        (_, Some("WRONGTYPE")) => StoreErrorKind::Corrupt,
        (Kind::Parse | Kind::UnexpectedReturnType, _) => StoreErrorKind::Corrupt,
        // A script that failed half-way: none of ours does, unless an entry is not what it should be.
        (Kind::Server(Server::ResponseError), _) => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}

/// A new layout's text: its version, and digits that no other has.
fn new_layout() -> String {
    format!("{} {}", scripts::LAYOUT, Owner::random())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Consumer, Key, Step};

    #[test]
    fn names_tell_all_parts_apart() {
        let redis = Redis::open("redis://127.0.0.1/").unwrap();
        let name = |consumer: &str, key: &str, step: Step| {
            let (consumer, key) = (Consumer::new(consumer).unwrap(), Key::new(key).unwrap());
            redis.entry(&Scope { consumer, key, step })
        };
        assert_eq!(name("mail", "order:1", Step::whole()), "semel-ledger:4:mail::order:1");
        assert_eq!(name("mail", "1", Step::new("send").unwrap()), "semel-ledger:4:mail:send:1");
        assert_ne!(name("a:", "b", Step::whole()), name("a", ":b", Step::whole()));
        assert_ne!(name("1:a", "b", Step::whole()), name("1", "a::b", Step::whole()));
    }

    #[test]
    fn a_redis_that_was_not_looked_at_answers_nothing() {
        let redis = Redis::open("redis://127.0.0.1/").unwrap();
        assert_eq!(redis.expected_layout().unwrap_err().kind(), StoreErrorKind::Schema);
    }
}
