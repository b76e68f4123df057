//! With `tokio-postgres`, alone or in a pool.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{FromSqlOwned, ToSql, Type};
use tokio_postgres::{Client, Config, Row, Socket};

use super::MIGRATIONS;
use super::answer::{Asked, ClaimCells, claimed, columns, kept, record};
use super::state::kind;
use super::statement::{ALONE, CLAIM, COMPLETE, EXISTS, LOOKUP, MARK, PRUNE, RELEASE, RENEW, VERSION};
use crate::key::Scope;
use crate::schema::newer;
use crate::store::{Claim, Claimed, Hold, Holder, Record, Release, Store};
use crate::time::{Moment, Until, millis};
use crate::{StoreError, StoreErrorKind};

/// Where the ledger gets a connection for each question. Questions are single statements, so one connection serves any
/// number of tasks; a pool does as well.
#[async_trait]
pub trait Clients: Send + Sync + 'static {
    /// A client, or the guard of a pool around one.
    type Client: Deref<Target = Client> + Send + Sync;

    /// One that is connected.
    async fn client(&self) -> Result<Self::Client, StoreError>;
}

/// One connection. When it breaks, the ledger refuses everything; see [`Reconnecting`].
#[async_trait]
impl Clients for Arc<Client> {
    type Client = Self;

    async fn client(&self) -> Result<Self, StoreError> {
        Ok(self.clone())
    }
}

/// One connection, made anew when it breaks. Its statements are pipelined, so it is rarely in the way. Clones share it.
#[derive(Clone)]
pub struct Reconnecting<T> {
    config: Config,
    tls: T,
    current: Arc<Mutex<Option<Arc<Client>>>>,
}

impl<T> Reconnecting<T> {
    /// Connects when it is first asked. Without a `connect_timeout` in the configuration it is five seconds.
    pub fn new(mut config: Config, tls: T) -> Self {
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        Self { config, tls, current: Arc::default() }
    }
}

impl<T> fmt::Debug for Reconnecting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconnecting").finish_non_exhaustive()
    }
}

#[async_trait]
impl<T> Clients for Reconnecting<T>
where
    T: MakeTlsConnect<Socket, TlsConnect: Send, Stream: Send> + Clone + Send + Sync + 'static,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    type Client = Arc<Client>;

    async fn client(&self) -> Result<Arc<Client>, StoreError> {
        let mut current = self.current.lock().await;
        if let Some(client) = current.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        let (client, connection) =
            self.config.connect(self.tls.clone()).await.map_err(failed("connecting"))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "the ledger's connection broke; the next question makes another");
            }
        });
        Ok(current.insert(Arc::new(client)).clone())
    }
}

/// A ledger in PostgreSQL, through `tokio-postgres`.
#[derive(Debug, Clone)]
pub struct TokioPostgres<C> {
    clients: C,
}

impl<C: Clients> TokioPostgres<C> {
    /// With connections of an application's own: an `Arc<Client>`, a [`Reconnecting`], or a pool behind [`Clients`].
    pub fn new(clients: C) -> Self {
        Self { clients }
    }

    async fn rows(&self, what: &'static str, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, StoreError> {
        let client = self.clients.client().await?;
        client.query_typed(sql, params).await.map_err(failed(what))
    }

    async fn one<T: FromSqlOwned>(
        &self,
        what: &'static str,
        sql: &str,
        params: &Params<'_>,
    ) -> Result<T, StoreError> {
        let rows = self.rows(what, sql, params).await?;
        let row = rows
            .first()
            .ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, format!("{what}: no answer")))?;
        cell(row, 0)
    }
}

type Params<'a> = [(&'a (dyn ToSql + Sync), Type)];

#[async_trait]
impl<C: Clients> Store for TokioPostgres<C> {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn ensure_schema(&self) -> Result<(), StoreError> {
        let client = self.clients.client().await?;
        if version(&client).await? == MIGRATIONS.len() {
            return Ok(());
        }
        // One simple query is one transaction, whoever else uses the connection.
        let known = version(&client).await?;
        for migration in &MIGRATIONS[known..] {
            let guarded = format!("{ALONE};\n{migration}");
            if let Err(error) = client.batch_execute(&guarded).await
                && version(&client).await? <= known
            {
                return Err(failed("making the schema")(error));
            }
        }
        Ok(())
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let asked = Asked::of(claim)?;
        let scope = Texts::of(&claim.scope);
        let owner = claim.owner.as_str();
        let params = [
            (&scope.consumer as _, Type::TEXT),
            (&scope.key as _, Type::TEXT),
            (&scope.step as _, Type::TEXT),
            (&owner as _, Type::TEXT),
            (&asked.fence as _, Type::INT8),
            (&asked.fingerprint as _, Type::TEXT),
            (&asked.lease as _, Type::INT8),
            (&asked.spent as _, Type::BOOL),
            (&asked.window as _, Type::INT8),
            (&asked.ttl as _, Type::INT8),
        ];
        let rows = self.rows("claiming", CLAIM, &params).await?;
        claimed(claim_cells(&rows)?)
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError> {
        let (of, lease) = (HolderTexts::of(holder)?, millis(lease));
        let rows = self.rows("renewing", RENEW, &of.params([(&lease as _, Type::INT8)])).await?;
        let Some(row) = rows.first() else { return Ok(Hold::Lost) };
        let (until, now) = (cell(row, 0)?, cell(row, 1)?);
        Ok(Hold::Held(Until::seen(Moment::from_millis(until), Moment::from_millis(now))))
    }

    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError> {
        let (of, ttl) = (HolderTexts::of(holder)?, millis(ttl));
        let more = [(&result as _, Type::TEXT), (&ttl as _, Type::INT8)];
        self.one("completing", COMPLETE, &of.params(more)).await.map(held)
    }

    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError> {
        let (of, forget) = (HolderTexts::of(holder)?, release == Release::Forget);
        self.one("releasing", RELEASE, &of.params([(&forget as _, Type::BOOL)])).await.map(held)
    }

    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        let ([consumers, keys, steps], ttl) = (columns(scopes), millis(ttl));
        let params = [
            (&consumers as _, Type::TEXT_ARRAY),
            (&keys as _, Type::TEXT_ARRAY),
            (&steps as _, Type::TEXT_ARRAY),
            (&ttl as _, Type::INT8),
        ];
        let rows = self.rows("marking", MARK, &params).await?;
        rows.iter().map(|row| cell(row, 0)).collect()
    }

    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
        let [consumers, keys, steps] = columns(scopes);
        let params = [
            (&consumers as _, Type::TEXT_ARRAY),
            (&keys as _, Type::TEXT_ARRAY),
            (&steps as _, Type::TEXT_ARRAY),
        ];
        let rows = self.rows("looking up", LOOKUP, &params).await?;
        rows.iter()
            .map(|row| {
                record((
                    cell(row, 0)?,
                    cell(row, 1)?,
                    cell(row, 2)?,
                    cell(row, 3)?,
                    cell(row, 4)?,
                    cell(row, 5)?,
                    cell(row, 6)?,
                    cell(row, 7)?,
                    cell(row, 8)?,
                ))
            })
            .collect()
    }

    async fn prune(&self, limit: u32) -> Result<u32, StoreError> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let count: i32 = self.one("pruning", PRUNE, &[(&limit as _, Type::INT4)]).await?;
        u32::try_from(count)
            .map_err(|_| StoreError::new(StoreErrorKind::Corrupt, "pruning: a negative count"))
    }
}

/// How many migrations the database has.
async fn version(client: &Client) -> Result<usize, StoreError> {
    let ask = async |sql: &str| {
        client.query_typed_one(sql, &[]).await.map_err(failed("reading the schema's version"))
    };
    if !cell::<bool>(&ask(EXISTS).await?, 0)? {
        return Ok(0);
    }
    let version: i32 = cell(&ask(VERSION).await?, 0)?;
    newer(version, MIGRATIONS.len())
}

/// The columns of `claim`.
fn claim_cells(rows: &[Row]) -> Result<ClaimCells, StoreError> {
    let row =
        rows.first().ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, "a claim has no answer"))?;
    Ok((
        cell(row, 0)?,
        cell(row, 1)?,
        cell(row, 2)?,
        cell(row, 3)?,
        cell(row, 4)?,
        cell(row, 5)?,
        cell(row, 6)?,
        cell(row, 7)?,
        cell(row, 8)?,
        cell(row, 9)?,
        cell(row, 10)?,
    ))
}

/// A scope as parameters borrow it.
pub(super) struct Texts<'a> {
    pub(super) consumer: &'a str,
    pub(super) key: &'a str,
    pub(super) step: &'a str,
}

impl<'a> Texts<'a> {
    pub(super) fn of(scope: &'a Scope) -> Self {
        Self { consumer: scope.consumer.as_str(), key: scope.key.as_str(), step: scope.step.as_str() }
    }
}

/// A holder as parameters borrow it.
struct HolderTexts<'a> {
    scope: Texts<'a>,
    owner: &'a str,
    token: Option<i64>,
}

impl<'a> HolderTexts<'a> {
    fn of(holder: &'a Holder) -> Result<Self, StoreError> {
        let (scope, owner) = (Texts::of(&holder.scope), holder.owner.as_str());
        Ok(Self { scope, owner, token: kept(Some(holder.token))? })
    }

    fn params<'p, const N: usize>(
        &'p self,
        more: [(&'p (dyn ToSql + Sync), Type); N],
    ) -> Vec<(&'p (dyn ToSql + Sync), Type)> {
        let of: [(&(dyn ToSql + Sync), Type); 5] = [
            (&self.scope.consumer, Type::TEXT),
            (&self.scope.key, Type::TEXT),
            (&self.scope.step, Type::TEXT),
            (&self.owner, Type::TEXT),
            (&self.token, Type::INT8),
        ];
        of.into_iter().chain(more).collect()
    }
}

fn held(held: bool) -> Hold<()> {
    if held { Hold::Held(()) } else { Hold::Lost }
}

pub(super) fn cell<T: FromSqlOwned>(row: &Row, place: usize) -> Result<T, StoreError> {
    row.try_get(place)
        .map_err(|error| StoreError::caused(StoreErrorKind::Corrupt, "an answer cannot be read", error))
}

/// What a driver's error means.
pub(super) fn failed(what: &'static str) -> impl Fn(tokio_postgres::Error) -> StoreError {
    move |error| {
        let kind = error.code().map_or(StoreErrorKind::Unavailable, |state| kind(state.code()));
        StoreError::caused(kind, what, error)
    }
}
