//! Telling the other nodes where to look.

use semel_store::StoreError;
use semel_store::shared::Wakes;
use tokio_postgres::types::Type;

use super::{CHANNEL, note};
use crate::fault::Fault;
use crate::session::{Session, Sql};
use crate::store::PostgresStore;

static NOTIFY: Sql = Sql {
    text: "SELECT count(pg_notify($1, note)::text) FROM unnest($2) AS note",
    types: &[Type::TEXT, Type::TEXT_ARRAY],
};

impl PostgresStore {
    /// Tells the others, but for what they need not know ([`super::hush`]).
    pub(super) async fn notify(&self, mut wakes: Wakes) -> Result<(), StoreError> {
        self.hush.silence(&mut wakes.ready);
        if wakes.is_empty() {
            return Ok(());
        }
        self.notify_and_look(&wakes).await.map_err(|fault| fault.after_commit())
    }

    async fn notify_and_look(&self, wakes: &Wakes) -> Result<(), Fault> {
        let session = self.pool.session().await?;
        send(&session, &note::write(self.node(), wakes)).await?;
        self.look_at_told(&session, &wakes.ready).await
    }
}

/// Sends notes, to this node too.
pub(super) async fn send(session: &Session, notes: &[String]) -> Result<(), Fault> {
    session.query(&NOTIFY, &[&CHANNEL, &notes]).await.map(drop)
}
