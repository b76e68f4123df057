//! Redis keeps the law, and answers with errors when it cannot.

mod faults;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semel_cluster::Redis as Server;
use semel_ledger::redis::Redis;
use semel_ledger::store::Store;
use semel_ledger::suite::{self, Harness};

use crate::trouble::scope;

/// Moves all times of all entries back: its clock cannot be moved.
const PASS: &str = "
    local cursor, span = '0', tonumber(ARGV[1])
    repeat
      local page = redis.call('SCAN', cursor, 'MATCH', 'semel-ledger:[0-9]*')
      cursor = page[1]
      for _, key in ipairs(page[2]) do
        local left = redis.call('PTTL', key)
        if redis.call('TYPE', key).ok == 'hash' then
          for _, field in ipairs({'since', 'until', 'done', 'expires'}) do
            if redis.call('HEXISTS', key, field) == 1 then redis.call('HINCRBY', key, field, -span) end
          end
        end
        if left >= 0 then redis.call('PEXPIRE', key, left - span) end
      end
    until cursor == '0'";

pub(crate) struct OnRedis {
    pub(crate) server: Server,
    pub(crate) store: Redis,
}

impl OnRedis {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let server = Server::with(settings).unwrap();
        let store = Redis::open(&server.url()).unwrap();
        store.ensure_schema().await.unwrap();
        Self { server, store }
    }
}

#[async_trait]
impl Harness for OnRedis {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn pass(&self, span: Duration) {
        self.server.command(&["EVAL", PASS, "0", &span.as_millis().to_string()]).unwrap();
    }

    fn expires_by_itself(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_keeps_the_law() {
    suite::check(&OnRedis::start(&[]).await).await;
}

#[tokio::test]
async fn redis_through_its_socket_is_the_same_redis() {
    let harness = OnRedis::start(&[]).await;
    let other = Redis::open(&harness.server.socket_url()).unwrap();
    other.ensure_schema().await.unwrap();
    let ttl = Duration::from_secs(60);
    assert_eq!(harness.store.mark(&[scope("one")], ttl).await.unwrap(), [true]);
    assert_eq!(other.mark(&[scope("one"), scope("two")], ttl).await.unwrap(), [false, true]);
}

#[tokio::test]
async fn a_connection_of_the_application_s_own_will_do() {
    let harness = OnRedis::start(&[]).await;
    let client = ::redis::Client::open(harness.server.url()).unwrap();
    let own = Redis::over(client.get_multiplexed_async_connection().await.unwrap());
    own.ensure_schema().await.unwrap();
    let ttl = Duration::from_secs(60);
    assert_eq!(own.mark(&[scope("one")], ttl).await.unwrap(), [true]);
    assert!(harness.store.lookup(&[scope("one")]).await.unwrap()[0].is_some());
}

#[tokio::test]
async fn ledgers_with_different_prefixes_do_not_see_each_other() {
    let harness = OnRedis::start(&[]).await;
    let other = harness.store.clone().prefix("other:");
    let ttl = Duration::from_secs(60);
    assert_eq!(harness.store.mark(&[scope("one")], ttl).await.unwrap(), [true]);
    assert_eq!(other.mark(&[scope("one")], ttl).await.unwrap(), [true]);
}
