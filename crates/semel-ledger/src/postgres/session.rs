//! A connection on which the ledger's statements are prepared.

use std::fmt;
use std::ops::{Deref, DerefMut};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, GenericClient, Row, Statement};

use super::statement::{BEGIN, RECORD};
use super::tokio_postgres::failed;
use crate::StoreError;

/// A client with the two statements of a transaction prepared, so that the server does not read and plan them every time:
/// for connections that live long and are not shared through a pooler that hands out others.
pub struct Session {
    client: Client,
    statements: Statements,
}

pub(super) struct Statements {
    begin: Statement,
    record: Statement,
}

impl Session {
    /// Prepares the statements. The ledger's schema must be there.
    pub async fn new(client: Client) -> Result<Self, StoreError> {
        let (begin, record) = (client.prepare(BEGIN), client.prepare(RECORD));
        let (begin, record) =
            futures_util::future::try_join(begin, record).await.map_err(failed("preparing"))?;
        Ok(Self { client, statements: Statements { begin, record } })
    }

    pub(super) fn parts(&self) -> (&Client, &Statements) {
        (&self.client, &self.statements)
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// One of the two statements, prepared or not.
#[derive(Clone, Copy)]
pub(super) enum Asked<'a> {
    Begin(Option<&'a Statements>),
    Record(Option<&'a Statements>),
}

impl Asked<'_> {
    /// Asks. Without a prepared statement the types are named, so that no other round trip asks for them.
    pub(super) async fn ask<const N: usize>(
        self,
        client: &impl GenericClient,
        params: [(&(dyn ToSql + Sync), Type); N],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Begin(Some(statements)) => {
                client.query(&statements.begin, &params.map(|(value, _)| value)).await
            }
            Self::Record(Some(statements)) => {
                client.query(&statements.record, &params.map(|(value, _)| value)).await
            }
            Self::Begin(None) => client.query_typed(BEGIN, &params).await,
            Self::Record(None) => client.query_typed(RECORD, &params).await,
        }
    }
}
