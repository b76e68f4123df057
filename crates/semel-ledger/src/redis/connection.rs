//! One connection that comes back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisFuture, RedisResult, Value};
use tokio::sync::Mutex;

/// Redis answers within a millisecond. One that does not within this time is away, and a worker should not hang on it.
const PATIENCE: Duration = Duration::from_secs(3);

/// A connection that everybody shares, and that is made anew for the next command after it was lost. The command that lost
/// it fails: whether it was carried out is not known.
#[derive(Clone)]
pub struct Reconnecting {
    client: Client,
    current: Arc<Mutex<Option<MultiplexedConnection>>>,
}

impl Reconnecting {
    pub(super) fn to(client: Client) -> Self {
        Self { client, current: Arc::default() }
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        let mut current = self.current.lock().await;
        if let Some(connection) = &*current {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(current.insert(connection).clone())
    }

    /// Lets go of the connection if it is of no more use. After a time-out that cannot be known, so it counts as lost.
    async fn judged<T>(&self, answer: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &answer
            && (error.is_unrecoverable_error() || error.is_io_error())
        {
            self.current.lock().await.take();
        }
        answer
    }
}

impl ConnectionLike for Reconnecting {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let answer = self.connection().await?.req_packed_command(command).await;
            self.judged(answer).await
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let answer = self.connection().await?.req_packed_commands(pipeline, offset, count).await;
            self.judged(answer).await
        })
    }

    fn get_db(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }
}

impl fmt::Debug for Reconnecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconnecting").field("address", self.client.get_connection_info().addr()).finish()
    }
}
