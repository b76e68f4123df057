//! Rows as the statements show and take them.

use sqlx::MySql;
use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;

use crate::rules::Row;
use crate::store::{Holder, Owner};
use crate::time::Moment;
use crate::{Fingerprint, Scope, StoreError, StoreErrorKind};

/// The columns of `read.sql`. All but the first are null if there is no entry.
pub(super) type Cells = (
    i64,
    Option<Vec<u8>>,
    Option<u64>,
    Option<u64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<String>,
);

pub(super) type Question<'q> = Query<'q, MySql, MySqlArguments>;

/// The server's clock, and the entry.
pub(super) fn read(cells: Cells) -> Result<(Moment, Option<Row>), StoreError> {
    let (now, owner, token, fence, fingerprint, since, until, done, expires, result) = cells;
    let now = Moment::from_millis(now);
    let (Some(owner), Some(token), Some(since), Some(until)) = (owner, token, since, until) else {
        return Ok((now, None));
    };
    let owner = String::from_utf8(owner).map_err(|error| corrupt(error.to_string()))?;
    let fingerprint = fingerprint.map(|text| Fingerprint::from_text(&text)).transpose();
    let row = Row {
        owner: Owner::from_text(owner),
        token,
        fence,
        fingerprint: fingerprint.map_err(|error| corrupt(error.to_string()))?,
        since: Moment::from_millis(since),
        until: Moment::from_millis(until),
        done: done.map(Moment::from_millis),
        expires: expires.map(Moment::from_millis),
        result,
    };
    Ok((now, Some(row)))
}

/// Binds a whole row, in the order of `insert.sql` and `replace.sql`.
pub(super) fn whole<'q>(question: Question<'q>, row: &Row, scope: &Scope) -> Question<'q> {
    let question = question
        .bind(row.owner.as_str().as_bytes().to_vec())
        .bind(row.token)
        .bind(row.fence)
        .bind(row.fingerprint.as_ref().map(Fingerprint::to_text))
        .bind(row.since.as_millis())
        .bind(row.until.as_millis())
        .bind(row.done.map(Moment::as_millis))
        .bind(row.expires.map(Moment::as_millis))
        .bind(row.result.clone());
    of(question, scope)
}

/// Binds what says that a row is still as it was read.
pub(super) fn unchanged<'q>(question: Question<'q>, row: &Row) -> Question<'q> {
    question
        .bind(row.owner.as_str().as_bytes().to_vec())
        .bind(row.token)
        .bind(row.until.as_millis())
        .bind(row.done.map(Moment::as_millis))
        .bind(row.expires.map(Moment::as_millis))
}

/// Binds a scope.
pub(super) fn of<'q>(question: Question<'q>, scope: &Scope) -> Question<'q> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    question
        .bind(bytes(scope.consumer.as_str()))
        .bind(bytes(scope.key.as_str()))
        .bind(bytes(scope.step.as_str()))
}

/// Binds a holder.
pub(super) fn held_by<'q>(question: Question<'q>, holder: &Holder) -> Question<'q> {
    of(question, &holder.scope).bind(holder.owner.as_str().as_bytes().to_vec()).bind(holder.token)
}

fn corrupt(what: String) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, what)
}
