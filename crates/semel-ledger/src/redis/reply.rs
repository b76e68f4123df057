//! What scripts answer, read field by field.

use std::fmt::Display;

use ::redis::{FromRedisValue, Value};

use crate::store::{Claimed, Done, Grant, Record, State};
use crate::time::{Moment, Until};
use crate::{Fingerprint, StoreError, StoreErrorKind};

/// The fields of one answer that were not read yet.
pub(super) struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    /// The fields of an answer; `None` if it is nil.
    pub(super) fn of(answer: Value) -> Result<Option<Self>, StoreError> {
        match answer {
            Value::Nil => Ok(None),
            Value::Array(fields) => Ok(Some(Self(fields.into_iter()))),
            other => Err(nonsense(format_args!("{other:?}"))),
        }
    }

    /// The next field. Nil, and one that is missing at the end, is none.
    fn next<T: FromRedisValue>(&mut self) -> Result<Option<T>, StoreError> {
        let field = self.0.next().unwrap_or(Value::Nil);
        let read = T::from_redis_value_ref(&field).map(Some);
        if field == Value::Nil { Ok(None) } else { read.map_err(nonsense) }
    }

    fn must<T: FromRedisValue>(&mut self) -> Result<T, StoreError> {
        self.next()?.ok_or_else(|| nonsense("a field is missing"))
    }

    fn moment(&mut self) -> Result<Moment, StoreError> {
        self.must().map(Moment::from_millis)
    }

    fn fingerprint(&mut self) -> Result<Option<Fingerprint>, StoreError> {
        let text: Option<String> = self.next()?;
        let read = text.map(|text| Fingerprint::from_text(&text)).transpose();
        read.map_err(nonsense)
    }

    fn done(&mut self, now: Moment) -> Result<Done, StoreError> {
        let (at, expires) = (self.moment()?, self.moment()?);
        Ok(Done { at, expires: Until::seen(expires, now), result: self.next()? })
    }

    /// The answer of `claim.lua`.
    pub(super) fn claimed(mut self) -> Result<Claimed, StoreError> {
        let (word, now): (String, _) = (self.must()?, self.moment()?);
        match word.as_str() {
            "granted" => self.grant(now).map(Claimed::Granted),
            "done" => self.done(now).map(Claimed::Done),
            "busy" => Ok(Claimed::Busy { until: Until::seen(self.moment()?, now) }),
            "spent" => Ok(Claimed::Spent { since: self.moment()? }),
            "stale" => Ok(Claimed::Stale { fence: self.must()? }),
            "collision" => {
                let recorded = self.fingerprint()?;
                recorded.map(|recorded| Claimed::Collision { recorded }).ok_or_else(|| nonsense(word))
            }
            _ => Err(nonsense(word)),
        }
    }

    fn grant(&mut self, now: Moment) -> Result<Grant, StoreError> {
        let (token, since, until) = (self.must()?, self.moment()?, self.moment()?);
        Ok(Grant { token, since, until: Until::seen(until, now), recovering: self.must::<u8>()? == 1 })
    }

    /// The answer of `renew.lua`.
    pub(super) fn renewed(mut self) -> Result<Until, StoreError> {
        let (now, until) = (self.moment()?, self.moment()?);
        Ok(Until::seen(until, now))
    }

    /// The answer of `lookup.lua`.
    pub(super) fn record(mut self) -> Result<Record, StoreError> {
        let (now, token, fence) = (self.moment()?, self.must()?, self.next()?);
        let (fingerprint, since, until) = (self.fingerprint()?, self.moment()?, self.moment()?);
        let state = match self.0.as_slice().first() {
            None | Some(Value::Nil) => State::Claimed { until: Until::seen(until, now) },
            Some(_) => State::Done(self.done(now)?),
        };
        Ok(Record { token, fence, fingerprint, since, state })
    }
}

fn nonsense(what: impl Display) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("Redis answered what no script answers: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: Vec<Value>) -> Result<Claimed, StoreError> {
        Fields::of(Value::Array(fields)).unwrap().unwrap().claimed()
    }

    #[test]
    fn nonsense_is_an_error_and_not_a_guess() {
        let word = |word: &str| Value::BulkString(word.into());
        for answer in [
            vec![],
            vec![word("granted")],
            vec![word("granted"), Value::Int(1), word("x")],
            vec![word("fine"), Value::Int(1)],
            vec![word("collision"), Value::Int(1), word("{")],
            vec![word("collision"), Value::Int(1)],
        ] {
            assert_eq!(read(answer).unwrap_err().kind(), StoreErrorKind::Corrupt);
        }
        assert!(Fields::of(Value::Int(1)).is_err());
        assert!(Fields::of(Value::Nil).unwrap().is_none());
    }
}
