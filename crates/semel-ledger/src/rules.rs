//! The law of [`claim`](crate::store::Store::claim) as a function from values to values, for stores that decide in Rust.
//! PostgreSQL and Redis say the same in their own languages; the suite compares.

use std::time::Duration;

use crate::Fingerprint;
use crate::store::{Claim, Claimed, Done, Expired, Grant, Owner, Record, State};
use crate::time::{Moment, Until};

/// An entry as stores keep it: one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Of the last claim. Empty after [`mark`](crate::store::Store::mark).
    pub owner: Owner,
    /// Of the last claim.
    pub token: u64,
    /// The highest token of a queue.
    pub fence: Option<u64>,
    /// Of the input.
    pub fingerprint: Option<Fingerprint>,
    /// The first claim.
    pub since: Moment,
    /// The end of the lease.
    pub until: Moment,
    /// When it was completed.
    pub done: Option<Moment>,
    /// When it is forgotten.
    pub expires: Option<Moment>,
    /// The first run's result, as JSON.
    pub result: Option<String>,
}

/// What a claim comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Write this row, then give this answer.
    Write(Row, Claimed),
    /// Write nothing.
    Answer(Claimed),
}

/// Decides a claim. A row that has expired MUST be replaced by the one that is written.
pub fn decide(row: Option<&Row>, claim: &Claim, now: Moment) -> Decision {
    match row.filter(|row| row.lives(now)) {
        None => grant(claim, None, now),
        Some(row) => refusal(row, claim, now).map_or_else(|| grant(claim, Some(row), now), Decision::Answer),
    }
}

fn refusal(row: &Row, claim: &Claim, now: Moment) -> Option<Claimed> {
    if let (Some(recorded), Some(given)) = (&row.fingerprint, &claim.fingerprint)
        && recorded != given
    {
        return Some(Claimed::Collision { recorded: recorded.clone() });
    }
    if let State::Done(done) = row.state(now) {
        return Some(Claimed::Done(done));
    }
    if let (Some(fence), Some(given)) = (row.fence, claim.fence)
        && given < fence
    {
        return Some(Claimed::Stale { fence });
    }
    if row.until > now {
        return Some(Claimed::Busy { until: Until::seen(row.until, now) });
    }
    let spent = match claim.expired {
        Expired::Spent => true,
        Expired::TakeOver { window } => window.is_some_and(|window| row.since.after(window) <= now),
    };
    spent.then_some(Claimed::Spent { since: row.since })
}

fn grant(claim: &Claim, before: Option<&Row>, now: Moment) -> Decision {
    let until = now.after(claim.lease);
    let row = Row {
        owner: claim.owner.clone(),
        token: before.map_or(1, |row| row.token + 1),
        fence: claim.fence.max(before.and_then(|row| row.fence)),
        fingerprint: before.and_then(|row| row.fingerprint.clone()).or_else(|| claim.fingerprint.clone()),
        since: before.map_or(now, |row| row.since),
        until,
        done: None,
        expires: (claim.expired == Expired::Spent).then(|| until.after(claim.ttl)),
        result: None,
    };
    let grant = Grant {
        token: row.token,
        since: row.since,
        until: Until::seen(until, now),
        recovering: before.is_some(),
    };
    Decision::Write(row, Claimed::Granted(grant))
}

impl Row {
    /// The row of an entry that is only marked as seen.
    pub fn marked(now: Moment, ttl: Duration) -> Self {
        Self {
            owner: Owner::from_text(""),
            token: 0,
            fence: None,
            fingerprint: None,
            since: now,
            until: now,
            done: Some(now),
            expires: Some(now.after(ttl)),
            result: None,
        }
    }

    /// Whether it has not expired.
    pub fn lives(&self, now: Moment) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }

    /// Whether this owner with this token is its last one.
    pub fn is_of(&self, owner: &Owner, token: u64) -> bool {
        self.owner == *owner && self.token == token
    }

    /// How far it came.
    pub fn state(&self, now: Moment) -> State {
        match (self.done, self.expires) {
            (Some(at), expires) => {
                let expires = Until::seen(expires.unwrap_or(Moment::from_millis(i64::MAX)), now);
                State::Done(Done { result: self.result.clone(), at, expires })
            }
            (None, _) => State::Claimed { until: Until::seen(self.until, now) },
        }
    }

    /// As lookups show it.
    pub fn record(&self, now: Moment) -> Record {
        Record {
            token: self.token,
            fence: self.fence,
            fingerprint: self.fingerprint.clone(),
            since: self.since,
            state: self.state(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Consumer, Key, Scope, Step};

    const MINUTE: Duration = Duration::from_secs(60);

    fn claim(expired: Expired) -> Claim {
        let (consumer, key) = (Consumer::new("c").unwrap(), Key::new("k").unwrap());
        Claim {
            scope: Scope { consumer, key, step: Step::whole() },
            owner: Owner::random(),
            fence: None,
            fingerprint: None,
            lease: MINUTE,
            expired,
            ttl: MINUTE,
        }
    }

    fn at(millis: i64) -> Moment {
        Moment::from_millis(millis)
    }

    fn first(expired: Expired) -> Row {
        match decide(None, &claim(expired), at(0)) {
            Decision::Write(row, _) => row,
            Decision::Answer(answer) => panic!("{answer:?}"),
        }
    }

    fn answer(row: &Row, expired: Expired, now: i64) -> Claimed {
        match decide(Some(row), &claim(expired), at(now)) {
            Decision::Write(_, answer) | Decision::Answer(answer) => answer,
        }
    }

    #[test]
    fn a_lease_is_over_at_its_end_and_not_before() {
        let forever = Expired::TakeOver { window: None };
        let row = first(forever);
        assert!(matches!(answer(&row, forever, 59_999), Claimed::Busy { .. }));
        assert!(matches!(answer(&row, forever, 60_000), Claimed::Granted(grant) if grant.recovering));
    }

    #[test]
    fn a_window_has_passed_at_its_end_and_not_before() {
        let window = Expired::TakeOver { window: Some(2 * MINUTE) };
        let row = first(window);
        assert!(matches!(answer(&row, window, 119_999), Claimed::Granted(_)));
        assert_eq!(answer(&row, window, 120_000), Claimed::Spent { since: at(0) });
    }

    #[test]
    fn an_entry_is_gone_at_its_expiry_and_not_before() {
        let row = first(Expired::Spent);
        assert_eq!(row.expires, Some(at(120_000)));
        assert_eq!(answer(&row, Expired::Spent, 119_999), Claimed::Spent { since: at(0) });
        assert!(matches!(answer(&row, Expired::Spent, 120_000), Claimed::Granted(grant) if grant.token == 1));
    }
}
