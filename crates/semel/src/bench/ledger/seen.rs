//! Verdicts of the seen-set, against bare `SET NX` on the same Redis.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use semel_ledger::redis::Redis;
use semel_ledger::{DEFAULT_TTL, Key, Ledger, Seen};

use super::crew::{self, WORKERS, Work};
use super::failed;
use crate::failure::Failure;

/// How often the kinds take turns.
const SLICES: u64 = 4;

/// What was measured, per second.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// `SET name 1 NX`.
    pub(super) bare: Work,
    /// `SET name 1 NX PX ttl`, which is what a set that forgets needs.
    pub(super) expiring: Work,
    /// [`Ledger::first`].
    pub(super) first: Work,
}

/// Marks so many new keys of each kind, in slices that take turns. Every kind has one connection that its workers share.
pub(super) async fn measure(url: &str, marks: u64) -> Result<Marks, Failure> {
    let store = Redis::open(url).map_err(failed("open Redis"))?;
    let ledger = Ledger::builder(store, "marks").build().map_err(failed("build a ledger"))?;
    ledger.ensure_schema().await.map_err(failed("prepare Redis"))?;
    let client = redis::Client::open(url).map_err(failed("open Redis"))?;
    let connection = client.get_multiplexed_async_connection().await.map_err(failed("connect to Redis"))?;
    let (mut first, warm) = (0, (marks / 10).max(1));
    slice(&ledger, &connection, (first, warm), &mut Marks::default()).await?;
    first += warm;
    let (mut found, size) = (Marks::default(), marks / SLICES);
    for _ in 0..SLICES {
        slice(&ledger, &connection, (first, size), &mut found).await?;
        first += size;
    }
    Ok(found)
}

async fn slice(
    ledger: &Ledger<Redis>,
    connection: &MultiplexedConnection,
    numbers: (u64, u64),
    found: &mut Marks,
) -> Result<(), Failure> {
    let connections = vec![connection.clone(); WORKERS];
    let bare = async |connection: &mut MultiplexedConnection, number| {
        set_nx(connection, name("plain", number), None).await
    };
    let (connections, work) = crew::share(connections, numbers, bare).await?;
    found.bare += work;
    let expiring = async |connection: &mut MultiplexedConnection, number| {
        set_nx(connection, name("timed", number), Some(DEFAULT_TTL)).await
    };
    found.expiring += crew::share(connections, numbers, expiring).await?.1;
    let first = async |ledger: &mut Ledger<Redis>, number| {
        let key = Key::new(key(number)).map_err(failed("name a key"))?;
        match ledger.first(&key).await.map_err(failed("mark a key"))? {
            Seen::First => Ok(()),
            Seen::Before => Err(Failure::Broken("a new key was seen before".into())),
        }
    };
    found.first += crew::share(vec![ledger.clone(); WORKERS], numbers, first).await?.1;
    Ok(())
}

async fn set_nx(
    connection: &mut MultiplexedConnection,
    name: String,
    ttl: Option<Duration>,
) -> Result<(), Failure> {
    let mut set = redis::cmd("SET");
    set.arg(name).arg(1).arg("NX");
    if let Some(ttl) = ttl {
        set.arg("PX").arg(semel_ledger::millis(ttl));
    }
    let answer: redis::Value = set.query_async(connection).await.map_err(failed("set a key"))?;
    if answer == redis::Value::Okay {
        return Ok(());
    }
    Err(Failure::Broken("a new key was set before".into()))
}

fn key(number: u64) -> String {
    format!("mail-{number:016}")
}

/// As long as the ledger's names are.
fn name(kind: &str, number: u64) -> String {
    format!("semel-ledger:5:{kind}::{}", key(number))
}
