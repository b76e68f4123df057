//! Rows of the table, read and written by the statements of `ledger/sqlite`.

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row as SqlRow, params};

use crate::key::Scope;
use crate::rules::Row;
use crate::store::Owner;
use crate::time::Moment;
use crate::{Fingerprint, StoreError, StoreErrorKind};

const CLOCK: &str = include_str!("../../../../ledger/sqlite/clock.sql");
const ENTRY: &str = include_str!("../../../../ledger/sqlite/entry.sql");
const WRITE: &str = include_str!("../../../../ledger/sqlite/write.sql");
const REMOVE: &str = include_str!("../../../../ledger/sqlite/remove.sql");

pub(super) fn clock(connection: &Connection) -> Result<Moment, StoreError> {
    let now = connection.prepare_cached(CLOCK).and_then(|mut clock| clock.query_row([], |row| row.get(0)));
    now.map(Moment::from_millis).map_err(failed("reading the clock"))
}

/// An entry, expired or not.
pub(super) fn read(connection: &Connection, scope: &Scope) -> Result<Option<Row>, StoreError> {
    let mut statement = connection.prepare_cached(ENTRY).map_err(failed("reading an entry"))?;
    statement.query_row(names(scope), row).optional().map_err(failed("reading an entry"))
}

pub(super) fn write(connection: &Connection, scope: &Scope, row: &Row) -> Result<(), StoreError> {
    let [consumer, key, step] = names(scope);
    let parameters = params![
        consumer,
        key,
        step,
        row.owner.as_str(),
        kept(Some(row.token))?,
        kept(row.fence)?,
        row.fingerprint.as_ref().map(Fingerprint::to_text),
        row.since.as_millis(),
        row.until.as_millis(),
        row.done.map(Moment::as_millis),
        row.expires.map(Moment::as_millis),
        row.result,
    ];
    let written = connection.prepare_cached(WRITE).and_then(|mut statement| statement.execute(parameters));
    written.map(drop).map_err(failed("writing an entry"))
}

pub(super) fn remove(connection: &Connection, scope: &Scope) -> Result<(), StoreError> {
    let removed = connection.prepare_cached(REMOVE).and_then(|mut statement| statement.execute(names(scope)));
    removed.map(drop).map_err(failed("removing an entry"))
}

pub(super) fn names(scope: &Scope) -> [&str; 3] {
    [scope.consumer.as_str(), scope.key.as_str(), scope.step.as_str()]
}

fn row(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let moment = |place: usize| row.get(place).map(Moment::from_millis);
    let maybe = |place: usize| row.get::<_, Option<i64>>(place).map(|at| at.map(Moment::from_millis));
    Ok(Row {
        owner: Owner::from_text(row.get::<_, String>(0)?),
        token: count(row.get(1)?)?,
        fence: row.get::<_, Option<i64>>(2)?.map(count).transpose()?,
        fingerprint: row.get::<_, Option<String>>(3)?.map(|text| fingerprint(&text)).transpose()?,
        since: moment(4)?,
        until: moment(5)?,
        done: maybe(6)?,
        expires: maybe(7)?,
        result: row.get(8)?,
    })
}

fn count(number: i64) -> rusqlite::Result<u64> {
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(1, number))
}

fn fingerprint(text: &str) -> rusqlite::Result<Fingerprint> {
    Fingerprint::from_text(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, error.into())
    })
}

/// A number as SQLite keeps it.
pub(super) fn kept(number: Option<u64>) -> Result<Option<i64>, StoreError> {
    let keep = |number: u64| {
        let message = format!("the token {number} is above 2^63 - 1, the largest that can be kept");
        i64::try_from(number).map_err(|_| StoreError::new(StoreErrorKind::Refused, message))
    };
    number.map(keep).transpose()
}

/// What an error of SQLite means.
pub(super) fn failed(what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted) => {
                StoreErrorKind::Unavailable
            }
            Some(ErrorCode::Unknown) if error.to_string().contains("no such table") => StoreErrorKind::Schema,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => StoreErrorKind::Corrupt,
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => StoreErrorKind::Unavailable,
            Some(_) => StoreErrorKind::Refused,
        };
        StoreError::caused(kind, what, error)
    }
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
