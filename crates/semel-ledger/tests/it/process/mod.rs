//! Real worker processes: killed at every boundary, stopped past their lease, with clocks that are wrong.

mod clocks;
mod kills;
mod orders;
mod stalls;
mod worker;

use std::path::Path;
use std::time::{Duration, Instant};

use semel_cluster::Database;
use semel_ledger::handler::Disposition;
use tempfile::TempDir;

use self::orders::{Desk, Mode, Orders, Place};
use crate::modes::transactional::TABLE;
use crate::mysql::OnMaria;
use crate::postgres::database;
use crate::redis::OnRedis;
use crate::sqlite::OnSqlite;

/// Long enough that a worker on a busy machine keeps it, short enough to wait for.
const LEASE: Duration = Duration::from_millis(400);

/// How long anything here may take before the test fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// The modes of every store.
const DURABLE: [Mode; 5] = [Mode::Intent, Mode::Reconcile, Mode::AtMostOnce, Mode::Seen, Mode::Steps];

/// Whatever keeps a store alive while a test uses it.
enum Guard {
    Postgres(Database<'static>),
    Sqlite(OnSqlite),
    Maria(OnMaria),
    Redis(Box<OnRedis>),
}

impl Guard {
    fn postgres() -> Self {
        let database = database();
        database.sql(TABLE).unwrap();
        Self::Postgres(database)
    }

    async fn sqlite() -> Self {
        let on = OnSqlite::start().await;
        rusqlite::Connection::open(on.path()).unwrap().execute_batch(TABLE).unwrap();
        Self::Sqlite(on)
    }

    async fn maria() -> Self {
        let on = OnMaria::start().await;
        sqlx::query(TABLE).execute(on.store.pool()).await.unwrap();
        Self::Maria(on)
    }

    async fn redis() -> Self {
        Self::Redis(Box::new(OnRedis::start(&[]).await))
    }

    fn place(&self) -> Place {
        match self {
            Self::Postgres(database) => Place::Tokio(database.url().to_owned()),
            Self::Sqlite(on) => Place::Sqlite(on.path()),
            Self::Maria(on) => Place::Maria(on.database.url().to_owned()),
            Self::Redis(on) => Place::Redis(on.server.url()),
        }
    }

    /// Rows of the table that transactions write to.
    async fn rows(&self, job: &str) -> u64 {
        let count = format!("SELECT count(*) FROM charge WHERE job = '{job}'");
        let rows: i64 = match self {
            Self::Postgres(database) => database.sql(&count).unwrap().parse().unwrap(),
            Self::Sqlite(on) => rusqlite::Connection::open(on.path())
                .unwrap()
                .query_row(&count, [], |row| row.get(0))
                .unwrap(),
            Self::Maria(on) => {
                sqlx::query_scalar(sqlx::AssertSqlSafe(count)).fetch_one(on.store.pool()).await.unwrap()
            }
            Self::Redis(_) => 0,
        };
        u64::try_from(rows).unwrap()
    }
}

/// Orders for these modes, with keys of this name.
fn orders(place: Place, modes: &[Mode], name: &str, directory: &TempDir) -> Orders {
    Orders {
        place,
        jobs: modes.iter().map(|mode| (*mode, format!("{name}-{mode:?}"))).collect(),
        token: 1,
        stop: None,
        directory: Path::to_owned(directory.path()),
        lease: LEASE,
    }
}

/// Delivers until the handler has settled the job.
async fn settled(desk: &Desk, mode: Mode, key: &str, token: u64) -> Disposition {
    let begun = Instant::now();
    loop {
        let pause = match desk.deliver(mode, key, token).await {
            Disposition::Defer { until } => until.remaining.max(Duration::from_millis(5)),
            Disposition::Fail { retryable: true, .. } => Duration::from_millis(20),
            end => return end,
        };
        assert!(begun.elapsed() < DEADLINE, "{mode:?} {key} is not settled");
        tokio::time::sleep(pause).await;
    }
}
