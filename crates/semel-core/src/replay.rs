//! Replays of many dead letters as a task that is kept: which ones, how fast, how far it has come.
//!
//! Before anybody replays a thousand dead letters they want to know what a replay would do to each. [`preflight`] says
//! what the history proves about the effect, and [`error_group`] tells one cause of death from another.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::job::{Attempt, AttemptStatus, Job};
use crate::name::{Group, QueueName, check_text};
use crate::outcome::{Effect, Receipt, never_reached_worker};
use crate::settle::REASON_MAX;
use crate::time::Timestamp;
use crate::violation::Violations;

/// Longest error group, in characters: two errors that are alike for so long have the same cause.
pub const ERROR_GROUP_MAX: usize = 120;

/// How many hexadecimal digits make an id. Shorter runs are as often words and numbers.
const ID_DIGITS: usize = 8;

/// A replay of dead letters of one queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayRecord {
    /// Its id, unique in the store.
    pub id: String,
    /// The queue.
    pub queue: QueueName,
    /// Which of its dead letters.
    pub filter: ReplayFilter,
    /// Most jobs replayed per second; as fast as the store takes them if absent.
    pub rate: Option<u32>,
    /// Whether it only counts.
    pub dry_run: bool,
    /// Where it stands.
    pub state: ReplayState,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Jobs below this id are still to be looked at; all of them if absent.
    pub cursor: Option<JobId>,
    /// What it has done so far.
    pub counts: ReplayCounts,
}

/// Which dead letters to replay; an empty filter takes all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ReplayFilter {
    /// Only those whose last error is in this [group](error_group).
    pub error: Option<String>,
    /// Only those of this group.
    pub group: Option<Group>,
    /// Only those that died at or after this time.
    pub from: Option<Timestamp>,
    /// Only those that died before this time.
    pub to: Option<Timestamp>,
    /// Only those of which one of these is known; any if empty.
    pub effects: Vec<Preflight>,
}

/// What is known about the effect of a job before it is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Preflight {
    /// It has happened. A replay needs a ledger, or it happens again.
    Applied,
    /// It has not happened.
    NotApplied,
    /// Nobody can tell.
    Unknown,
}

/// Where a replay stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplayState {
    /// Under way.
    Running,
    /// It has looked at everything.
    Done,
    /// Called off. What it had replayed stays replayed.
    Cancelled,
}

/// What a replay has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplayCounts {
    /// Dead letters looked at.
    pub looked_at: u64,
    /// Those that the filter takes.
    pub matched: u64,
    /// Those that were replayed.
    pub replayed: u64,
    /// Those that could not be.
    pub refused: u64,
    /// Of the matched, those whose effect has happened.
    pub applied: u64,
    /// Of the matched, those whose effect has not happened.
    pub not_applied: u64,
    /// Of the matched, those of which it is not known.
    pub unknown: u64,
}

impl ReplayRecord {
    /// Checks the record as a whole.
    pub fn validate(&self) -> Result<(), Violations> {
        let mut wrong = Violations::default();
        wrong.require(check_text("id", &self.id).is_ok(), "id", || {
            "must be 1 to 255 printable characters".into()
        });
        wrong.require(self.rate != Some(0), "rate", || "must be at least 1; cancel it to stop it".into());
        let ordered = self.filter.from.zip(self.filter.to).is_none_or(|(from, to)| from <= to);
        wrong.require(ordered, "filter.from", || "must not be after to".into());
        wrong.into_result()
    }

    /// This record, put in the place of the one that is kept. A task that has ended stays as it ended, and counts only grow:
    /// whoever wrote this record may have read the task before somebody else changed it.
    #[must_use]
    pub fn following(mut self, kept: Option<&Self>) -> Self {
        let Some(kept) = kept else { return self };
        self.counts = self.counts.at_least(&kept.counts);
        if kept.state != ReplayState::Running {
            self.state = kept.state;
            self.finished_at = kept.finished_at;
        }
        self
    }
}

impl ReplayCounts {
    fn at_least(self, other: &Self) -> Self {
        Self {
            looked_at: self.looked_at.max(other.looked_at),
            matched: self.matched.max(other.matched),
            replayed: self.replayed.max(other.replayed),
            refused: self.refused.max(other.refused),
            applied: self.applied.max(other.applied),
            not_applied: self.not_applied.max(other.not_applied),
            unknown: self.unknown.max(other.unknown),
        }
    }
}

impl ReplayFilter {
    /// Whether it takes a dead letter.
    pub fn matches(&self, job: &Job) -> bool {
        let died = job.progress.finished_at;
        let has_error = |group: &String| job.progress.last_error().map(error_group).as_ref() == Some(group);
        self.error.as_ref().is_none_or(has_error)
            && self.group.as_ref().is_none_or(|group| job.spec.group.as_ref() == Some(group))
            && self.from.is_none_or(|from| died.is_some_and(|at| at >= from))
            && self.to.is_none_or(|to| died.is_some_and(|at| at < to))
            && (self.effects.is_empty() || self.effects.contains(&preflight(job)))
    }
}

/// What the history of a job proves about its effect. Where it proves nothing the answer is
/// [`Unknown`](Preflight::Unknown), because a wrong "not applied" makes somebody charge a customer twice.
///
/// It goes by what is kept: a delivery that was out when the store crashed left no trace.
pub fn preflight(job: &Job) -> Preflight {
    let progress = &job.progress;
    let receipts = progress.history.iter().filter_map(|attempt| attempt.effect.as_ref());
    let happened = |receipt: &Receipt| matches!(receipt.outcome, Effect::Applied | Effect::Replayed);
    if receipts.chain(&progress.effect).any(happened) {
        return Preflight::Applied;
    }
    let out_now = progress.state.is_leased();
    if !out_now && progress.history_dropped == 0 && progress.history.iter().all(had_no_effect) {
        return Preflight::NotApplied;
    }
    Preflight::Unknown
}

/// Whether one entry of a history proves that nothing ran.
fn had_no_effect(attempt: &Attempt) -> bool {
    // Real attempts count from one and have a duration: this is the burial of a job that no worker had.
    let no_delivery = attempt.number == 0 && attempt.duration.is_none();
    let said_so = attempt.effect.as_ref().is_some_and(|receipt| receipt.outcome == Effect::None);
    let by_deliverer = matches!(attempt.status, AttemptStatus::Failed | AttemptStatus::Deferred);
    let not_reached = by_deliverer && attempt.error.as_deref().is_some_and(never_reached_worker);
    no_delivery || said_so || not_reached
}

/// An error with what varies from job to job taken out, so that dead letters of one cause are one group: quoted text
/// becomes `"..."`, ids (hexadecimal digits and dashes) `ID`, numbers `N`.
pub fn error_group(error: &str) -> String {
    // Errors that are kept are no longer than this, and a bound keeps the search for closing quotes cheap.
    let text: Vec<char> = error.chars().take(REASON_MAX).collect();
    let (mut group, mut at) = (String::new(), 0);
    while let Some(&c) = text.get(at) {
        let (rest, starts) = (&text[at..], at == 0 || !text[at - 1].is_ascii_alphanumeric());
        let (put, length) = if let Some(length) = quoted(rest, starts) {
            ("\"...\"", length)
        } else if let Some(length) = id(rest).filter(|_| starts) {
            ("ID", length)
        } else if c.is_ascii_digit() {
            ("N", run(rest, char::is_ascii_digit))
        } else {
            group.push(c);
            ("", 1)
        };
        group += put;
        at += length;
    }
    group.chars().take(ERROR_GROUP_MAX).collect()
}

/// The length of the quoted text that `text` begins with. A single quote inside a word is an apostrophe.
fn quoted(text: &[char], starts: bool) -> Option<usize> {
    let quote = *text.first().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let closes = |at: usize| {
        let followed = text.get(at + 1).is_some_and(char::is_ascii_alphanumeric);
        text[at] == quote && !(quote == '\'' && followed)
    };
    let is_open = starts || quote != '\'';
    (1..text.len()).find(|&at| closes(at)).map(|at| at + 1).filter(|_| is_open)
}

/// The length of the id that `text` begins with: hexadecimal digits, enough of them, with dashes between them. It has
/// letters and digits both: without letters it is a number or a date, without digits a word.
fn id(text: &[char]) -> Option<usize> {
    let prefix = if text.starts_with(&['0', 'x']) { 2 } else { 0 };
    let body = &text[prefix..];
    let length = run(body, |c| c.is_ascii_hexdigit() || *c == '-');
    let length = length - body[..length].iter().rev().take_while(|c| **c == '-').count();
    let (digits, ends) = (&body[..length], !body.get(length).is_some_and(char::is_ascii_alphanumeric));
    let enough = digits.iter().filter(|c| **c != '-').count() >= ID_DIGITS;
    let mixed = digits.iter().any(char::is_ascii_digit) && digits.iter().any(char::is_ascii_alphabetic);
    (ends && enough && (mixed || prefix > 0) && body.first() != Some(&'-')).then_some(prefix + length)
}

/// How many characters at the beginning are of a kind.
fn run(text: &[char], is: impl Fn(&char) -> bool) -> usize {
    text.iter().take_while(|c| is(c)).count()
}

#[cfg(test)]
mod tests;
