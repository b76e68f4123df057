//! Reading: filters, pages and cursors.

use std::fmt;
use std::str::FromStr;

use semel_core::ids::JobId;
use semel_core::job::{Job, JobSpec};
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::name::{Group, QueueName};
use semel_core::time::Timestamp;
use semel_core::violation::Violations;

/// Most jobs on one page.
pub const PAGE_MAX: u32 = 1000;
/// How many suppressed publishes a key's record shows; the count goes on.
pub const SUPPRESSED_MAX: usize = 8;

/// Where the next page starts. Opaque to callers: text in, the same text out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The page has only jobs with smaller ids.
    pub below: JobId,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The check digits make a mistyped cursor an error instead of a page that silently starts somewhere else.
        write!(f, "c1.{}.{:04x}", self.below, check_digits(self.below))
    }
}

impl FromStr for Cursor {
    type Err = Violations;

    fn from_str(text: &str) -> Result<Self, Violations> {
        let wrong =
            || Violations::one("cursor", "is not one that this server handed out: start again without it");
        let (id, check) = text.strip_prefix("c1.").and_then(|rest| rest.split_once('.')).ok_or_else(wrong)?;
        let below: JobId = id.parse().map_err(|_| wrong())?;
        if format!("{:04x}", check_digits(below)) != check {
            return Err(wrong());
        }
        Ok(Self { below })
    }
}

fn check_digits(id: JobId) -> u64 {
    (id.raw() ^ 0x5e3e1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
}

/// Which jobs to list, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct JobQuery {
    /// Only this queue.
    pub queue: Option<QueueName>,
    /// Only this state.
    pub state: Option<State>,
    /// Only this key.
    pub key: Option<Key>,
    /// Only this group.
    pub group: Option<Group>,
    /// Only jobs with all of these metadata entries.
    pub metadata: Vec<(String, String)>,
    /// Only jobs published at or after this time.
    pub from: Option<Timestamp>,
    /// Only jobs published before this time.
    pub to: Option<Timestamp>,
    /// Only persistent duplicates by this limit (see [`Job::is_persistent_duplicate`]).
    pub duplicated: Option<u32>,
    /// At most this many, 1 to [`PAGE_MAX`].
    pub limit: u32,
    /// Where the page before ended.
    pub cursor: Option<Cursor>,
}

impl Default for JobQuery {
    fn default() -> Self {
        Self {
            queue: None,
            state: None,
            key: None,
            group: None,
            metadata: Vec::new(),
            from: None,
            to: None,
            duplicated: None,
            limit: 50,
            cursor: None,
        }
    }
}

impl JobQuery {
    /// Checks the query as a whole.
    pub fn validate(&self) -> Result<(), Violations> {
        let mut wrong = Violations::default();
        wrong.require((1..=PAGE_MAX).contains(&self.limit), "limit", || format!("must be 1 to {PAGE_MAX}"));
        let ordered = self.from.zip(self.to).is_none_or(|(from, to)| from <= to);
        wrong.require(ordered, "from", || "must not be after to".into());
        wrong.into_result()
    }

    /// Whether a job passes the filters that need more than its published part, `state` and the cursor aside.
    pub fn matches_duplicates(&self, job: &Job) -> bool {
        self.duplicated.is_none_or(|limit| job.is_persistent_duplicate(limit))
    }

    /// Whether a job's published part passes the filters (all but `state`, `duplicated` and the cursor).
    pub fn matches_spec(&self, spec: &JobSpec) -> bool {
        self.queue.as_ref().is_none_or(|q| *q == spec.queue)
            && self.key.as_ref().is_none_or(|k| Some(k) == spec.key.as_ref())
            && self.group.as_ref().is_none_or(|g| Some(g) == spec.group.as_ref())
            && self.metadata.iter().all(|wanted| spec.metadata.contains(wanted))
            && self.from.is_none_or(|from| spec.created_at >= from)
            && self.to.is_none_or(|to| spec.created_at < to)
    }
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page starts; `None` at the end. A page may be short, even empty, and still have a next one.
    pub next: Option<Cursor>,
}

/// A publish that was answered with an earlier one's job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppressed {
    /// When.
    pub at: Timestamp,
    /// By whom, if the publisher said.
    pub publisher: Option<String>,
    /// Whether its payload was that of the first.
    pub payload_matches: bool,
}

/// What a store knows of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRecord {
    /// The newest job published under it.
    pub job: Job,
    /// Whether the job still holds it.
    pub holds: bool,
    /// When it stops holding; `None` while the job is unfinished.
    pub expires_at: Option<Timestamp>,
    /// The newest suppressed publishes, oldest first, at most [`SUPPRESSED_MAX`]; `job.duplicates` counts them all.
    pub suppressed: Vec<Suppressed>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tampered_cursor_is_refused() {
        let cursor = Cursor { below: JobId::from_raw(987_654_321).unwrap() };
        let text = cursor.to_string();
        assert_eq!(text.parse::<Cursor>().unwrap(), cursor);
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            let tampered = String::from_utf8(bytes).unwrap();
            assert!(tampered.parse::<Cursor>().is_err(), "{tampered}");
        }
        assert!("".parse::<Cursor>().is_err());
    }
}
