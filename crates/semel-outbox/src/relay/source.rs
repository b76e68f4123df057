//! What a relay asks of a database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::mysql::Mysql;
use super::postgres::Postgres;
use super::row::{Refused, Row};
use super::sqlite::Sqlite;
use super::{Dead, Depth, Error};

/// Connections of a pool: more than lanes and listeners need.
pub(super) const CONNECTIONS: u32 = 16;

/// How long a connection is waited for.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// An outbox in a database.
#[async_trait]
pub(super) trait Source: Send + Sync {
    /// Claims up to `limit` rows, oldest first, none of these queues. Nobody else claims them until the claim is settled or
    /// dropped, or its process is gone. Of a group only what is at its front: no row whose predecessor is dead or claimed
    /// by another.
    async fn claim(&self, limit: u32, held: &[String]) -> Result<Box<dyn Claim>, Error>;

    /// Hears of new rows from now on.
    fn news(&self) -> News;

    /// Whether several claims at once make sense.
    fn takes_turns(&self) -> bool;

    /// How many rows there are.
    async fn depth(&self) -> Result<Depth, Error>;

    /// Dead rows, oldest first.
    async fn dead(&self, limit: u32) -> Result<Vec<Dead>, Error>;

    /// Has dead rows tried again, all or these; says how many.
    async fn retry(&self, ids: Option<&[i64]>) -> Result<u64, Error>;

    /// Deletes dead rows, all or these; says how many.
    async fn discard(&self, ids: Option<&[i64]>) -> Result<u64, Error>;

    /// Makes the table, if it is not there.
    async fn ensure_schema(&self) -> Result<(), Error>;
}

/// Hears of new rows, where the database announces them.
pub(super) struct News(pub(super) Option<watch::Receiver<()>>);

impl News {
    /// Waits until there may be rows that were not there at the last call, at most this long.
    pub(super) async fn wait(&mut self, at_most: Duration) {
        let heard = async {
            let gone = match &mut self.0 {
                Some(news) => news.changed().await.is_err(),
                None => true,
            };
            if gone {
                std::future::pending::<()>().await;
            }
        };
        // Hearing nothing is an answer, too: then it is time to look.
        drop(tokio::time::timeout(at_most, heard).await);
    }
}

/// Rows that are ours for now. Dropping it gives them back as they were.
#[async_trait]
pub(super) trait Claim: Send {
    /// Hands the rows over, oldest first.
    fn rows(&mut self) -> Vec<Row>;

    /// Deletes what was carried, marks what was refused, and gives the rest back.
    async fn settle(self: Box<Self>, carried: Vec<i64>, refused: Vec<(i64, Refused)>) -> Result<(), Error>;
}

/// Opens the outbox at an address.
pub(super) async fn open(address: &str) -> Result<Arc<dyn Source>, Error> {
    match address.split_once(':').map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Ok(Arc::new(Postgres::open(address).await?)),
        Some("mysql" | "mariadb") => Ok(Arc::new(Mysql::open(address).await?)),
        Some("sqlite") => Ok(Arc::new(Sqlite::open(address)?)),
        _ => Err(Error::Address(
            "the address of the database begins with postgres://, mysql://, mariadb:// or sqlite:".into(),
        )),
    }
}

/// Keeps of each group what is in front of the first row that another has, or that is dead. `others` are those first rows, by
/// queue and group.
pub(super) fn in_front(rows: Vec<Row>, others: &[(String, String, i64)]) -> Vec<Row> {
    let others: HashMap<_, _> =
        others.iter().map(|(queue, group, first)| ((queue.as_str(), group.as_str()), *first)).collect();
    let may_go = |row: &Row| {
        let group = row.group.as_deref().map(|group| (row.queue.as_str(), group));
        group.and_then(|group| others.get(&group)).is_none_or(|first| row.id < *first)
    };
    rows.into_iter().filter(may_go).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64, queue: &str, group: Option<&str>) -> Row {
        let group = group.map(Into::into);
        Row { id, queue: queue.into(), key: String::new(), group, payload: "1".into(), options: None }
    }

    #[test]
    fn nobody_is_carried_past_a_row_that_another_has() {
        let rows = vec![
            row(1, "q", Some("a")),
            row(2, "q", Some("b")),
            row(4, "q", Some("a")),
            row(5, "r", Some("a")),
            row(6, "q", None),
        ];
        let others = [("q".to_owned(), "a".to_owned(), 3)];
        let kept: Vec<_> = in_front(rows, &others).iter().map(|row| row.id).collect();
        assert_eq!(kept, [1, 2, 5, 6]);
    }
}
