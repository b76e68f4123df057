//! Publishing: what a sender asks for, and what becomes of it when its key has been seen before.

use std::sync::Arc;

use crate::collision::{self, Verdict};
use crate::ids::JobId;
use crate::job::{Job, JobSpec, Overrides, Priority, Progress};
use crate::key::{Fingerprint, Key};
use crate::lifecycle::State;
use crate::name::{Group, QueueName};
use crate::payload::Payload;
use crate::queue::{OnCollision, OnDead, Rules};
use crate::refusal::Refusal;
use crate::time::{Millis, Timestamp};
use crate::violation::Violations;

/// How far ahead a job can be planned. A plan for longer belongs in the sender's own calendar.
pub const DELAY_MAX: Millis = Millis::from_days(365);
/// How much metadata a job carries: it travels with every delivery and is searched, so it stays small.
pub const METADATA_MAX: usize = 32;
/// Longest metadata name or value, in bytes.
pub const METADATA_TEXT_MAX: usize = 1024;

/// A publish as a sender fills it in. [`Draft::check`] makes it a [`Publish`].
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The queue.
    pub queue: QueueName,
    /// The payload.
    pub payload: Payload,
    /// The sender's key.
    pub key: Option<Key>,
    /// Run this long after it was published.
    pub delay: Option<Millis>,
    /// Or run at this time.
    pub run_at: Option<Timestamp>,
    /// -100 to 100, higher first.
    pub priority: i64,
    /// The group.
    pub group: Option<Group>,
    /// What the job says for itself where the queue has a default.
    pub overrides: Overrides,
    /// Flat strings delivered with the job.
    pub metadata: Vec<(String, String)>,
    /// Who publishes, for the trace of suppressed duplicates.
    pub publisher: Option<String>,
}

impl Draft {
    /// A plain publish: now, no key.
    pub fn new(queue: QueueName, payload: Payload) -> Self {
        Self {
            queue,
            payload,
            key: None,
            delay: None,
            run_at: None,
            priority: 0,
            group: None,
            overrides: Overrides::default(),
            metadata: Vec::new(),
            publisher: None,
        }
    }

    /// The same with a key.
    #[must_use]
    pub fn with_key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Checks everything that can be checked without knowing the queue, and names every violation at once.
    pub fn check(self) -> Result<Publish, Violations> {
        let mut wrong = Violations::default();
        wrong.require(self.delay.is_none() || self.run_at.is_none(), "delay", || {
            "and runAt exclude each other: send one".into()
        });
        wrong.require(self.delay.is_none_or(|d| d <= DELAY_MAX), "delay", || {
            format!("must be at most {DELAY_MAX}")
        });
        let priority = i8::try_from(self.priority).ok().and_then(Priority::new);
        wrong.require(priority.is_some(), "priority", || {
            format!("must be -100 to 100, got {}", self.priority)
        });
        check_overrides(&self.overrides, &mut wrong);
        check_metadata(&self.metadata, &mut wrong);
        wrong.into_result()?;
        let fingerprint = Fingerprint::of(&self.payload);
        Ok(Publish { priority: priority.unwrap_or_default(), fingerprint, draft: self })
    }
}

fn check_overrides(overrides: &Overrides, wrong: &mut Violations) {
    // Most publishes say nothing for themselves, and a whole configuration need not be looked at for that.
    if overrides.is_empty() {
        return;
    }
    let mut probe = crate::QueueConfig::default();
    if let Some(attempts) = overrides.max_attempts {
        probe.max_attempts = attempts;
    }
    if let Some(retry) = &overrides.retry {
        probe.retry = retry.clone();
    }
    if let Some(window) = overrides.window {
        probe.window = window;
    }
    // An override obeys the same limits as the setting it overrides, so the queue's own validation decides.
    if let Err(violations) = probe.validate() {
        violations.iter().for_each(|v| wrong.add(&v.field, &v.problem));
    }
    wrong.require(
        overrides.timeout.is_none_or(|t| crate::lease::LEASE_RANGE.contains(&t)),
        "timeout",
        || format!("must be {} to {}", crate::lease::LEASE_RANGE.start(), crate::lease::LEASE_RANGE.end()),
    );
}

fn check_metadata(metadata: &[(String, String)], wrong: &mut Violations) {
    wrong.require(metadata.len() <= METADATA_MAX, "metadata", || {
        format!("has {} entries, at most {METADATA_MAX} are kept", metadata.len())
    });
    for (i, (name, value)) in metadata.iter().enumerate() {
        let fits = !name.is_empty() && name.len() <= METADATA_TEXT_MAX && value.len() <= METADATA_TEXT_MAX;
        wrong.require(fits, "metadata", || {
            format!("names are 1 to {METADATA_TEXT_MAX} bytes and values at most as many; see entry {i}")
        });
        let twice = metadata[..i].iter().any(|(earlier, _)| earlier == name);
        wrong.require(!twice, "metadata", || format!("has the name {name:?} twice"));
    }
}

/// A publish that has been checked. A store takes only these.
#[derive(Debug, Clone, PartialEq)]
pub struct Publish {
    draft: Draft,
    priority: Priority,
    fingerprint: Fingerprint,
}

impl Publish {
    /// What the sender asked for.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// The digest of the payload.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The job as it will be stored. A time that has passed means "at once", so such a job is a plain one.
    pub fn into_spec(self, rules: &Rules, now: Timestamp) -> JobSpec {
        let Self { draft, priority, fingerprint } = self;
        let asked = draft.delay.map(|d| now.plus(d)).or(draft.run_at).unwrap_or(now);
        JobSpec {
            queue: draft.queue,
            payload: Some(draft.payload),
            fingerprint,
            key: draft.key,
            created_at: now,
            run_at: asked.max(now),
            priority,
            gated: draft.group.is_some() && rules.config.group_concurrency.is_some(),
            group: draft.group,
            overrides: draft.overrides,
            metadata: draft.metadata,
        }
    }
}

/// What a store does with a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Store a new job.
    Create,
    /// Answer with the job that holds the key.
    Return {
        /// Whether this payload is that of the first publish.
        payload_matches: bool,
    },
    /// Replay the dead letter that holds the key, and answer with it.
    Revive {
        /// Whether this payload is that of the first publish.
        payload_matches: bool,
    },
    /// Release the key of the dead letter that holds it, and store a new job.
    Replace,
}

/// The answer to a publish.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The job.
    pub id: JobId,
    /// Where it stands.
    pub state: State,
    /// When it was published first.
    pub created_at: Timestamp,
    /// Whether this publish was answered with an earlier one's job.
    pub deduplicated: bool,
    /// Whether the payload is that of the first publish; true for a new job.
    pub payload_matches: bool,
    /// How many publishes have been answered with this job instead of a new one, this one included; 0 for a new job.
    pub duplicates: u32,
    /// When the key stops holding; `None` while the job is unfinished or has no key.
    pub key_expires_at: Option<Timestamp>,
}

/// The reason given when a queue with `onDead: release` frees the key of a dead letter.
pub const RELEASED_BY_PUBLISH: &str = "published again while dead (onDead: release)";

/// Checks a publish against the queue it is for.
pub fn admit(rules: &Rules, publish: &Publish, now: Timestamp) -> Result<(), Refusal> {
    let draft = &publish.draft;
    let limit = rules.config.payload_limit;
    if draft.payload.len() > limit as usize {
        return Err(Refusal::PayloadTooLarge { size: draft.payload.len(), limit });
    }
    if draft.run_at.is_some_and(|at| at > now.plus(DELAY_MAX)) {
        return Err(Violations::one("runAt", format!("must be at most {DELAY_MAX} ahead")).into());
    }
    match &draft.key {
        None if rules.config.require_key => Err(Refusal::KeyRequired(draft.queue.clone())),
        Some(key) if !rules.key_matches(key.as_str()) => {
            Err(Refusal::KeyPattern { pattern: rules.config.key_pattern.clone().unwrap_or_default() })
        }
        _ => Ok(()),
    }
}

/// Decides a publish, given the newest job with its key, if there is one.
pub fn decide(
    rules: &Rules,
    publish: &Publish,
    newest: Option<&Job>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let Some(job) = newest.filter(|job| job.holds_key(&rules.config, now)) else {
        return Ok(Decision::Create);
    };
    if job.progress.state == State::Dead && rules.config.on_dead == OnDead::Release {
        return Ok(Decision::Replace);
    }
    let payload_matches = match compare(rules, publish, &job.spec) {
        Verdict::Same => true,
        Verdict::Different { pointers } if rules.config.on_collision == OnCollision::Reject => {
            return Err(Refusal::KeyCollision { id: job.id, pointers });
        }
        Verdict::Different { .. } => false,
    };
    if job.progress.state == State::Dead
        && rules.config.on_dead == OnDead::Revive
        && job.spec.payload.is_some()
    {
        return Ok(Decision::Revive { payload_matches });
    }
    Ok(Decision::Return { payload_matches })
}

fn compare(rules: &Rules, publish: &Publish, first: &JobSpec) -> Verdict {
    if first.fingerprint == publish.fingerprint {
        return Verdict::Same;
    }
    match &first.payload {
        Some(payload) => collision::compare(payload, &publish.draft.payload, &rules.config.collision_ignore),
        None => Verdict::Different { pointers: Vec::new() },
    }
}

/// The answer for a job that has just been made or found. A job that was found has this publish among its duplicates.
pub fn answer(rules: &Rules, job: &Job, deduplicated: bool, payload_matches: bool) -> Published {
    Published {
        id: job.id,
        state: job.progress.state,
        created_at: job.spec.created_at,
        deduplicated,
        payload_matches,
        duplicates: job.duplicates,
        key_expires_at: job.key_expires_at(&rules.config),
    }
}

/// The same for a job that has just been made, of which nothing else needs to be known.
pub fn made(id: JobId, now: Timestamp) -> Published {
    Published {
        id,
        state: State::Pending,
        created_at: now,
        deduplicated: false,
        payload_matches: true,
        duplicates: 0,
        key_expires_at: None,
    }
}

/// A new job as it stands right after its publish.
pub fn create(id: JobId, spec: JobSpec) -> Job {
    let progress = Progress::fresh(spec.run_at);
    Job { id, spec: Arc::new(spec), progress, duplicates: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueConfig;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn draft(payload: &str) -> Draft {
        Draft::new(QueueName::try_from("q").unwrap(), Payload::from_json(payload.to_owned()).unwrap())
            .with_key(Key::try_from("k").unwrap())
    }

    fn rules(change: impl FnOnce(&mut QueueConfig)) -> Rules {
        let mut config = QueueConfig::default();
        change(&mut config);
        Rules::new(config).unwrap()
    }

    fn first(rules: &Rules, state: State, finished_at: Option<Timestamp>) -> Job {
        let spec = draft(r#"{"a": 1, "b": 2}"#).check().unwrap().into_spec(rules, NOW);
        let mut job = create(JobId::from_raw(9).unwrap(), spec);
        job.progress.state = state;
        job.progress.finished_at = finished_at;
        job
    }

    fn decided(rules: &Rules, first: &Job, payload: &str, now: Timestamp) -> Result<Decision, Refusal> {
        decide(rules, &draft(payload).check().unwrap(), Some(first), now)
    }

    #[test]
    fn a_job_that_has_just_been_made_is_answered_alike_whoever_looks_at_it() {
        let rules = rules(|_| {});
        let job = first(&rules, State::Pending, None);
        assert_eq!(made(job.id, NOW), answer(&rules, &job, false, true));
    }

    #[test]
    fn every_violation_of_a_draft_is_named_at_once() {
        let mut wrong = draft("1");
        wrong.delay = Some(DELAY_MAX.plus(Millis::from_millis(1)));
        wrong.run_at = Some(NOW);
        wrong.priority = 1000;
        wrong.metadata =
            vec![(String::new(), "x".into()), ("a".into(), "x".into()), ("a".into(), "y".into())];
        wrong.overrides.max_attempts = Some(0);
        let named: Vec<_> = wrong.check().unwrap_err().iter().map(|v| v.field.clone()).collect();
        for field in ["delay", "priority", "metadata", "maxAttempts"] {
            assert!(named.iter().any(|n| n == field), "{field} is not among {named:?}");
        }
    }

    #[test]
    fn a_key_is_free_again_exactly_at_the_end_of_its_window() {
        let rules = rules(|config| config.window = Millis::from_millis(100));
        let job = first(&rules, State::Completed, Some(NOW));
        let same = r#"{"a": 1, "b": 2}"#;
        let at = |ms| decided(&rules, &job, same, NOW.plus(Millis::from_millis(ms))).unwrap();
        assert_eq!(at(99), Decision::Return { payload_matches: true });
        assert_eq!(at(100), Decision::Create);
        let unfinished = first(&rules, State::Pending, None);
        let much_later = NOW.plus(Millis::from_days(3000));
        assert_eq!(
            decided(&rules, &unfinished, same, much_later),
            Ok(Decision::Return { payload_matches: true })
        );
    }

    #[test]
    fn a_collision_is_flagged_or_rejected_with_where_it_differs() {
        let flag = rules(|_| {});
        let other = r#"{"b": 3, "a": 1}"#;
        let job = first(&flag, State::Pending, None);
        assert_eq!(decided(&flag, &job, other, NOW), Ok(Decision::Return { payload_matches: false }));
        let reject = rules(|config| config.on_collision = OnCollision::Reject);
        let pointers = vec!["/b".to_owned()];
        assert_eq!(decided(&reject, &job, other, NOW), Err(Refusal::KeyCollision { id: job.id, pointers }));
        let reordered = r#"{"b":2,"a":1}"#;
        assert_eq!(decided(&reject, &job, reordered, NOW), Ok(Decision::Return { payload_matches: true }));
    }

    #[test]
    fn a_dead_job_keeps_revives_or_releases_its_key() {
        let same = r#"{"a": 1, "b": 2}"#;
        let expected = [
            (OnDead::Keep, Decision::Return { payload_matches: true }),
            (OnDead::Revive, Decision::Revive { payload_matches: true }),
            (OnDead::Release, Decision::Replace),
        ];
        for (on_dead, decision) in expected {
            let rules = rules(|config| config.on_dead = on_dead);
            let job = first(&rules, State::Dead, Some(NOW));
            assert_eq!(decided(&rules, &job, same, NOW), Ok(decision));
        }
    }

    #[test]
    fn a_time_that_has_passed_means_at_once() {
        let rules = rules(|_| {});
        let mut late = draft("1");
        late.run_at = Some(Timestamp::from_millis(5));
        assert!(late.check().unwrap().into_spec(&rules, NOW).is_plain());
    }
}
