//! What the functions answer, and the values they are asked with, for both drivers.

use serde::Deserialize;

use crate::key::Scope;
use crate::store::{Claim, Claimed, Done, Expired, Grant, Record, State};
use crate::time::{Moment, Until, millis};
use crate::transactional::Begun;
use crate::{Error, Fingerprint, StoreError, StoreErrorKind};

/// The columns of `claim`, in order.
pub(super) type ClaimCells = (
    String,
    i64,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<bool>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
);

/// The columns of `lookup`, in order.
pub(super) type LookupCells = (
    i64,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
);

/// An entry as the functions show it, columns that they left out included.
struct Cells {
    now: Moment,
    token: Option<i64>,
    since: Option<i64>,
    until: Option<i64>,
    fence: Option<i64>,
    fingerprint: Option<String>,
    done_at: Option<i64>,
    expires_at: Option<i64>,
    result: Option<String>,
}

pub(super) fn claimed(cells: ClaimCells) -> Result<Claimed, StoreError> {
    let (verdict, recovering, cells) = split(cells);
    Ok(match verdict.as_str() {
        "granted" => Claimed::Granted(cells.grant(recovering)?),
        "done" => Claimed::Done(cells.done()?),
        "busy" => Claimed::Busy { until: cells.until()? },
        "spent" => Claimed::Spent { since: cells.since()? },
        "collision" => Claimed::Collision { recorded: cells.fingerprint()?.ok_or_else(missing)? },
        "stale" => Claimed::Stale { fence: cells.fence()?.ok_or_else(missing)? },
        other => return Err(corrupt(format!("the verdict {other:?} is not known"))),
    })
}

/// What `begin` answers when there is nothing to do.
#[derive(Deserialize)]
struct Told {
    verdict: String,
    now: i64,
    token: Option<i64>,
    since: Option<i64>,
    until: Option<i64>,
    fence: Option<i64>,
    fingerprint: Option<String>,
    done_at: Option<i64>,
    expires_at: Option<i64>,
    result: Option<String>,
}

pub(super) fn begun(answer: Option<&str>) -> Result<Begun, StoreError> {
    let Some(answer) = answer else { return Ok(Begun::New) };
    let told: Told = serde_json::from_str(answer).map_err(|error| corrupt(error.to_string()))?;
    if told.verdict == "busy" && told.until.is_none() {
        return Ok(Begun::busy(Moment::from_millis(told.now)));
    }
    let Told { verdict, now, token, since, until, fence, fingerprint, done_at, expires_at, result } = told;
    claimed((verdict, now, token, since, until, None, fence, fingerprint, done_at, expires_at, result))
        .map(Begun::Answered)
}

pub(super) fn record(cells: LookupCells) -> Result<Option<Record>, StoreError> {
    let (now, token, since, until, fence, fingerprint, done_at, expires_at, result) = cells;
    let now = Moment::from_millis(now);
    let cells = Cells { now, token, since, until, fence, fingerprint, done_at, expires_at, result };
    if cells.token.is_none() {
        return Ok(None);
    }
    let state = match cells.done_at {
        Some(_) => State::Done(cells.done()?),
        None => State::Claimed { until: cells.until()? },
    };
    let (token, fence) = (cells.token()?, cells.fence()?);
    Ok(Some(Record { token, fence, fingerprint: cells.fingerprint()?, since: cells.since()?, state }))
}

fn split(cells: ClaimCells) -> (String, bool, Cells) {
    let (verdict, now, token, since, until, recovering, fence, fingerprint, done_at, expires_at, result) =
        cells;
    let now = Moment::from_millis(now);
    let cells = Cells { now, token, since, until, fence, fingerprint, done_at, expires_at, result };
    (verdict, recovering.unwrap_or(false), cells)
}

impl Cells {
    fn grant(&self, recovering: bool) -> Result<Grant, StoreError> {
        Ok(Grant { token: self.token()?, since: self.since()?, until: self.until()?, recovering })
    }

    fn done(&self) -> Result<Done, StoreError> {
        let at = self.done_at.map(Moment::from_millis).ok_or_else(missing)?;
        let expires = self.expires_at.map(Moment::from_millis).ok_or_else(missing)?;
        Ok(Done { result: self.result.clone(), at, expires: Until::seen(expires, self.now) })
    }

    fn token(&self) -> Result<u64, StoreError> {
        let token = self.token.ok_or_else(missing)?;
        u64::try_from(token).map_err(|_| corrupt(format!("the token {token} is negative")))
    }

    fn fence(&self) -> Result<Option<u64>, StoreError> {
        let read =
            |fence: i64| u64::try_from(fence).map_err(|_| corrupt(format!("the fence {fence} is negative")));
        self.fence.map(read).transpose()
    }

    fn since(&self) -> Result<Moment, StoreError> {
        self.since.map(Moment::from_millis).ok_or_else(missing)
    }

    fn until(&self) -> Result<Until, StoreError> {
        let at = self.until.map(Moment::from_millis).ok_or_else(missing)?;
        Ok(Until::seen(at, self.now))
    }

    fn fingerprint(&self) -> Result<Option<Fingerprint>, StoreError> {
        let read = |text: &String| Fingerprint::from_text(text).map_err(|error| corrupt(error.to_string()));
        self.fingerprint.as_ref().map(read).transpose()
    }
}

fn missing() -> StoreError {
    corrupt("an entry lacks what its verdict needs".to_owned())
}

fn corrupt(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}

/// A claim as the function takes it.
pub(super) struct Asked {
    pub(super) fence: Option<i64>,
    pub(super) fingerprint: Option<String>,
    pub(super) lease: i64,
    pub(super) spent: bool,
    pub(super) window: Option<i64>,
    pub(super) ttl: i64,
}

impl Asked {
    pub(super) fn of(claim: &Claim) -> Result<Self, StoreError> {
        let (spent, window) = match claim.expired {
            Expired::Spent => (true, None),
            Expired::TakeOver { window } => (false, window.map(millis)),
        };
        let fingerprint = claim.fingerprint.as_ref().map(Fingerprint::to_text);
        let (fence, lease, ttl) = (kept(claim.fence)?, millis(claim.lease), millis(claim.ttl));
        Ok(Self { fence, fingerprint, lease, spent, window, ttl })
    }
}

/// A number as a `bigint` keeps it.
pub(super) fn kept(number: Option<u64>) -> Result<Option<i64>, StoreError> {
    let keep = |number: u64| {
        let message = format!("the token {number} is above 2^63 - 1, the largest that can be kept");
        i64::try_from(number).map_err(|_| StoreError::new(StoreErrorKind::Refused, message))
    };
    number.map(keep).transpose()
}

/// Scopes as three arrays.
pub(super) fn columns(scopes: &[Scope]) -> [Vec<&str>; 3] {
    [
        scopes.iter().map(|scope| scope.consumer.as_str()).collect(),
        scopes.iter().map(|scope| scope.key.as_str()).collect(),
        scopes.iter().map(|scope| scope.step.as_str()).collect(),
    ]
}

/// The error where another transaction recorded the key first, and its record is gone again.
pub(super) fn outrun<E>() -> Error<E> {
    let message = "another transaction recorded the same key, and its record is gone again";
    Error::Store(StoreError::new(StoreErrorKind::Unavailable, message))
}
