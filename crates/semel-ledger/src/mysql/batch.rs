//! Many scopes in few statements.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, FromRow, MySqlPool, Row as _, query};

use super::failure::{again, failed};
use super::row::{self, Cells, of};
use super::statement;
use crate::rules::Row;
use crate::store::{Owner, Record};
use crate::time::{Moment, millis};
use crate::{Scope, StoreError};

/// How many go into one statement: enough that the round trip does not count, few enough that it is short.
const BATCH: usize = 500;

/// Consumer, key and step.
type Name = [Vec<u8>; 3];

pub(super) async fn mark(pool: &MySqlPool, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
    let owner = Owner::random();
    // In the order of the keys, and each once.
    let mut sorted: Vec<&Scope> = scopes.iter().collect();
    sorted.sort_by_cached_key(|scope| name(scope));
    sorted.dedup();
    for batch in sorted.chunks(BATCH) {
        insert(pool, batch, &owner, ttl).await?;
    }
    let entries = found(pool, scopes).await?;
    let marked = entries.into_iter().filter(|(_, (_, row))| row.owner == owner);
    let mut ours: BTreeSet<Name> = marked.map(|(name, _)| name).collect();
    // Of equal ones the first gets it.
    Ok(scopes.iter().map(|scope| ours.remove(&name(scope))).collect())
}

async fn insert(pool: &MySqlPool, scopes: &[&Scope], owner: &Owner, ttl: Duration) -> Result<(), StoreError> {
    let text = statement::mark(scopes.len());
    let question = || {
        let bind = |question: row::Question<'static>, scope: &&Scope| {
            of(question.bind(owner.as_str().as_bytes().to_vec()).bind(millis(ttl)), scope)
        };
        scopes.iter().fold(query(AssertSqlSafe(text.clone())), bind)
    };
    again(|| question().execute(pool)).await.map(drop).map_err(failed("marking"))
}

pub(super) async fn lookup(pool: &MySqlPool, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
    let entries = found(pool, scopes).await?;
    let record = |scope| {
        let (now, row) = entries.get(&name(scope))?;
        row.lives(*now).then(|| row.record(*now))
    };
    Ok(scopes.iter().map(record).collect())
}

/// The entries of these scopes, expired ones included, each with the time at which it was read.
async fn found(pool: &MySqlPool, scopes: &[Scope]) -> Result<HashMap<Name, (Moment, Row)>, StoreError> {
    let failed = failed("looking up");
    let mut entries = HashMap::with_capacity(scopes.len());
    for batch in scopes.chunks(BATCH) {
        let question = query(AssertSqlSafe(statement::lookup(batch.len())));
        let question = batch.iter().fold(question, of);
        for row in question.fetch_all(pool).await.map_err(&failed)? {
            let cells = Cells::from_row(&row).map_err(&failed)?;
            if let (now, Some(entry)) = row::read(cells)? {
                entries.insert(named(&row).map_err(&failed)?, (now, entry));
            }
        }
    }
    Ok(entries)
}

fn name(scope: &Scope) -> Name {
    [scope.consumer.as_str(), scope.key.as_str(), scope.step.as_str()].map(|part| part.as_bytes().to_vec())
}

fn named(row: &MySqlRow) -> Result<Name, sqlx::Error> {
    Ok([row.try_get("consumer")?, row.try_get("key")?, row.try_get("step")?])
}
