//! Telling the other nodes where to look.

use semel_store::StoreError;
use semel_store::shared::Wakes;
use tokio_postgres::types::Type;

use super::{CHANNEL, note};
use crate::connect::Pool;
use crate::fault::Fault;
use crate::session::Sql;
use crate::store::PostgresStore;

static NOTIFY: Sql = Sql {
    text: "SELECT count(pg_notify($1, note)::text) FROM unnest($2) AS note",
    types: &[Type::TEXT, Type::TEXT_ARRAY],
};

impl PostgresStore {
    pub(super) async fn notify(&self, wakes: &Wakes) -> Result<(), StoreError> {
        let notes = note::write(self.node(), wakes);
        send(&self.pool, &notes).await.map_err(|fault| fault.after_commit())
    }
}

/// Sends notes, to this node too.
pub(super) async fn send(pool: &Pool, notes: &[String]) -> Result<(), Fault> {
    pool.session().await?.query(&NOTIFY, &[&CHANNEL, &notes]).await.map(drop)
}
