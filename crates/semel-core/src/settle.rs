//! Settling: what a delivery's outcome makes of its job, and who may say so.

use crate::gate::Signal;
use crate::ids::{JobId, Token};
use crate::job::{Attempt, AttemptStatus, JobSpec, LastSettle, Progress};
use crate::lease::Lease;
use crate::lifecycle::{Event, IllegalTransition, State};
use crate::outcome::{DeferScope, Outcome, Receipt};
use crate::queue::{AckTimeoutAction, Delivery, QueueConfig};
use crate::refusal::Refusal;
use crate::retry::RetryPolicy;
use crate::time::{Millis, Timestamp};
use crate::violation::Violations;

/// Longest error or reason kept, in characters: enough for a message, too short for a stack dump per attempt.
pub const REASON_MAX: usize = 500;
/// Largest result kept, in bytes.
pub const RESULT_MAX: usize = 64 * 1024;
/// Longest wait a worker may ask for: past a day it is not backpressure, it is a schedule.
pub const RETRY_AFTER_MAX: Millis = Millis::from_days(1);
/// How long a defer without a time waits.
pub const RETRY_AFTER_DEFAULT: Millis = Millis::from_secs(60);

/// What a settle says, as far as repeating it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Done.
    Ack,
    /// Not done: retry, or never again.
    Nack,
    /// Later.
    Defer,
    /// Received, to be settled out of band.
    Receive,
    /// Nobody settled it in time.
    Expire,
}

/// What is known of a delivery besides its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Whether the worker itself settled, rather than the deliverer judging an answer.
    pub from_worker: bool,
    /// The webhook's status code.
    pub status_code: Option<u16>,
    /// How long the worker took.
    pub duration: Option<Millis>,
    /// What the worker said of the effect although the job is not done: a handler may fail after it.
    pub effect: Option<Receipt>,
}

/// A settle that has been checked. A store takes only these.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle {
    id: JobId,
    token: Option<Token>,
    outcome: Outcome,
    report: Report,
}

impl Settle {
    /// Checks a settle: `token` is the delivery's; without one it applies to the current delivery.
    pub fn new(
        id: JobId,
        token: Option<Token>,
        outcome: Outcome,
        report: Report,
    ) -> Result<Self, Violations> {
        let mut wrong = Violations::default();
        match &outcome {
            Outcome::Done { result: Some(result), .. } => {
                wrong.require(result.len() <= RESULT_MAX, "result", || {
                    format!("has {} bytes, at most {RESULT_MAX} are kept", result.len())
                });
            }
            Outcome::Failed { error: text } | Outcome::Rejected { error: text } => {
                check_reason(&mut wrong, text);
            }
            Outcome::Backpressure { retry_after, reason, .. } => {
                wrong.require(retry_after.is_none_or(|t| t <= RETRY_AFTER_MAX), "retryAfter", || {
                    format!("must be at most {RETRY_AFTER_MAX}")
                });
                reason.iter().for_each(|text| check_reason(&mut wrong, text));
            }
            Outcome::Expired => wrong.add("outcome", "only the store itself finds that a lease has expired"),
            Outcome::Done { .. } | Outcome::Received => {}
        }
        wrong.into_result()?;
        Ok(Self { id, token, outcome, report })
    }

    /// The job.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The token it came with.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// What became of the delivery.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// What else is known.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

fn check_reason(wrong: &mut Violations, text: &str) {
    let length = text.chars().count();
    wrong.require(length <= REASON_MAX, "reason", || {
        format!("has {length} characters, at most {REASON_MAX} are kept")
    });
}

/// The verb of an outcome.
pub fn verb(outcome: &Outcome) -> Verb {
    match outcome {
        Outcome::Done { .. } => Verb::Ack,
        Outcome::Failed { .. } | Outcome::Rejected { .. } => Verb::Nack,
        Outcome::Backpressure { .. } => Verb::Defer,
        Outcome::Received => Verb::Receive,
        Outcome::Expired => Verb::Expire,
    }
}

/// Whether a settle may take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// It is for the current delivery.
    Current(Token),
    /// It already took effect: answer as before, change nothing.
    Repeated,
}

/// The fence: only the current delivery's token settles; a repeat of the last settle is recognised; all else is stale.
pub fn fence(
    id: JobId,
    state: State,
    lease: Option<&Lease>,
    last: Option<LastSettle>,
    token: Option<Token>,
    verb: Verb,
) -> Result<Fence, Refusal> {
    let repeats = |lease_token: Option<Token>| {
        last.is_some_and(|l| l.verb == verb && lease_token.is_none_or(|t| t == l.token))
    };
    match (lease, token) {
        (Some(lease), token) if token.is_none_or(|t| t == lease.token) => {
            let again = lease.received && verb == Verb::Receive;
            Ok(if again { Fence::Repeated } else { Fence::Current(lease.token) })
        }
        (_, Some(token)) if repeats(Some(token)) => Ok(Fence::Repeated),
        (_, Some(_)) => Err(Refusal::StaleLease(id)),
        (_, None) if repeats(None) => Ok(Fence::Repeated),
        (_, None) => Err(Refusal::NotLeased { id, state }),
    }
}

/// What bounds a job's attempts.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    /// The queue's settings.
    pub config: &'a QueueConfig,
    /// The attempt cap in force for the job.
    pub max_attempts: u32,
    /// The retry policy in force for the job.
    pub retry: &'a RetryPolicy,
}

/// What a settle makes of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The job's new progress.
    pub progress: Progress,
    /// What the queue's gate learns from it.
    pub signal: Signal,
    /// How long the delivery took.
    pub took: Millis,
}

/// Applies the outcome of the delivery `lease` to a job. `Received` is not an end and is handled by the lease table.
pub fn step(
    id: JobId,
    mut progress: Progress,
    policy: Policy<'_>,
    lease: &Lease,
    outcome: &Outcome,
    report: &Report,
    now: Timestamp,
) -> Result<Step, IllegalTransition> {
    progress.state = if lease.received { State::AwaitingAck } else { State::Processing };
    let took = report.duration.unwrap_or_else(|| now.since(lease.since));
    let verdict = judge(id, &progress, policy, lease, outcome, now);
    progress.state = progress.state.after(verdict.event)?;
    progress.remember(Attempt {
        number: progress.attempts.saturating_add(1),
        status: status_of(outcome, report),
        error: error_of(outcome),
        status_code: report.status_code,
        at: now,
        duration: Some(took),
        effect: effect_of(outcome).or_else(|| report.effect.clone()),
    });
    match verdict.event {
        Event::Defer => progress.deferrals = progress.deferrals.saturating_add(1),
        _ => progress.attempts = progress.attempts.saturating_add(1),
    }
    if let Some(due) = verdict.due {
        progress.due = due;
    }
    if let Outcome::Done { result, effect } = outcome {
        progress.result.clone_from(result);
        progress.effect.clone_from(effect);
    }
    progress.finished_at = progress.state.is_finished().then_some(now);
    progress.settled = Some(LastSettle { token: lease.token, verb: verb(outcome) });
    Ok(Step { progress, signal: verdict.signal, took })
}

struct Judgement {
    event: Event,
    due: Option<Timestamp>,
    signal: Signal,
}

fn judge(
    id: JobId,
    progress: &Progress,
    policy: Policy<'_>,
    lease: &Lease,
    outcome: &Outcome,
    now: Timestamp,
) -> Judgement {
    match outcome {
        Outcome::Done { .. } => Judgement { event: Event::Complete, due: None, signal: Signal::Success },
        Outcome::Received => Judgement { event: Event::Receive, due: None, signal: Signal::Success },
        Outcome::Rejected { .. } => Judgement { event: Event::Bury, due: None, signal: Signal::Lost },
        Outcome::Backpressure { retry_after, scope, .. } => {
            let until = now.plus(retry_after.unwrap_or(RETRY_AFTER_DEFAULT).min(RETRY_AFTER_MAX));
            let scope: DeferScope = scope.unwrap_or(policy.config.defer_scope);
            Judgement { event: Event::Defer, due: Some(until), signal: Signal::Backpressure { until, scope } }
        }
        Outcome::Failed { .. } => retry_or_bury(id, progress, policy, now, Signal::Failure),
        Outcome::Expired if lease.received && buries_on_ack_timeout(policy.config) => {
            Judgement { event: Event::Bury, due: None, signal: Signal::Lost }
        }
        Outcome::Expired => retry_or_bury(id, progress, policy, now, Signal::Lost),
    }
}

fn retry_or_bury(
    id: JobId,
    progress: &Progress,
    policy: Policy<'_>,
    now: Timestamp,
    signal: Signal,
) -> Judgement {
    let used = progress.attempts.saturating_add(1);
    if used >= policy.max_attempts {
        return Judgement { event: Event::Bury, due: None, signal };
    }
    // The seed is the job and the attempt, so that every backend, and every replay of a test, gets the same jitter.
    let wait = policy.retry.delay(used, id.raw().rotate_left(17) ^ u64::from(used));
    Judgement { event: Event::Retry, due: Some(now.plus(wait)), signal }
}

fn buries_on_ack_timeout(config: &QueueConfig) -> bool {
    matches!(&config.delivery, Delivery::Push(push) if push.ack_timeout_action == AckTimeoutAction::Dead)
}

fn status_of(outcome: &Outcome, report: &Report) -> AttemptStatus {
    match outcome {
        Outcome::Done { .. } | Outcome::Received => AttemptStatus::Success,
        Outcome::Failed { .. } | Outcome::Rejected { .. } if report.from_worker => AttemptStatus::Nacked,
        Outcome::Failed { .. } | Outcome::Rejected { .. } => AttemptStatus::Failed,
        Outcome::Backpressure { .. } => AttemptStatus::Deferred,
        Outcome::Expired => AttemptStatus::Expired,
    }
}

fn error_of(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed { error } | Outcome::Rejected { error } => Some(error.clone()),
        Outcome::Backpressure { reason, .. } => reason.clone(),
        Outcome::Expired => Some("the lease ran out before the delivery was settled".into()),
        Outcome::Done { .. } | Outcome::Received => None,
    }
}

fn effect_of(outcome: &Outcome) -> Option<Receipt> {
    match outcome {
        Outcome::Done { effect, .. } => effect.clone(),
        _ => None,
    }
}

/// Calls a job off.
pub fn cancel(id: JobId, mut progress: Progress, leased: bool, now: Timestamp) -> Result<Progress, Refusal> {
    let state = if leased { State::Processing } else { progress.state };
    progress.state = state.after(Event::Cancel).map_err(|e| Refusal::WrongState {
        id,
        state: e.state,
        action: "cancelled",
    })?;
    progress.finished_at = Some(now);
    Ok(progress)
}

/// Puts an unfinished job among the dead letters, for a reason that a person or a rule gives. No attempt is burned. A
/// delivery that is out ends with it: the history then says how long the worker had the job, which tells such a burial
/// from that of a job that no worker had.
pub fn bury(
    id: JobId,
    mut progress: Progress,
    leased: Option<&Lease>,
    reason: &str,
    now: Timestamp,
) -> Result<Progress, Refusal> {
    let state = if leased.is_some() { State::Processing } else { progress.state };
    progress.state =
        state.after(Event::Bury).map_err(|e| Refusal::WrongState { id, state: e.state, action: "buried" })?;
    progress.remember(Attempt {
        number: progress.attempts,
        status: AttemptStatus::Failed,
        error: Some(reason.chars().take(REASON_MAX).collect()),
        status_code: None,
        at: now,
        duration: leased.map(|lease| now.since(lease.since)),
        effect: None,
    });
    progress.finished_at = Some(now);
    Ok(progress)
}

/// Gives a dead letter another life: same id, same key, all attempts again, its history kept.
pub fn replay(
    id: JobId,
    spec: &JobSpec,
    mut progress: Progress,
    now: Timestamp,
) -> Result<Progress, Refusal> {
    progress.state = progress.state.after(Event::Replay).map_err(|e| Refusal::WrongState {
        id,
        state: e.state,
        action: "replayed",
    })?;
    if spec.payload.is_none() {
        return Err(Refusal::PayloadGone(id));
    }
    progress.attempts = 0;
    progress.due = now;
    progress.replays = progress.replays.saturating_add(1);
    progress.replayed_at = Some(now);
    progress.finished_at = None;
    progress.settled = None;
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn id() -> JobId {
        JobId::from_raw(7).unwrap()
    }

    fn lease(token: u64) -> Lease {
        let since = Timestamp::from_millis(NOW.millis() - 250);
        Lease { token: Token::from_raw(token), since, deadline: NOW, received: false }
    }

    fn judged(
        lease: Option<Lease>,
        last: Option<(u64, Verb)>,
        token: Option<u64>,
        verb: Verb,
    ) -> &'static str {
        let last = last.map(|(token, verb)| LastSettle { token: Token::from_raw(token), verb });
        match fence(id(), State::Pending, lease.as_ref(), last, token.map(Token::from_raw), verb) {
            Ok(Fence::Current(_)) => "current",
            Ok(Fence::Repeated) => "repeated",
            Err(refusal) => refusal.code(),
        }
    }

    #[test]
    fn only_the_current_token_or_none_settles() {
        let (held, before) = (Some(lease(5)), Some((4, Verb::Nack)));
        assert_eq!(judged(held, before, Some(5), Verb::Ack), "current");
        assert_eq!(judged(held, before, None, Verb::Ack), "current");
        assert_eq!(judged(held, before, Some(4), Verb::Ack), "stale_lease", "another verb is no repeat");
        assert_eq!(judged(held, before, Some(4), Verb::Nack), "repeated", "the last settle, once more");
        assert_eq!(
            judged(held, before, Some(6), Verb::Ack),
            "stale_lease",
            "a token from the future is forged"
        );
        assert_eq!(judged(None, before, Some(4), Verb::Nack), "repeated");
        assert_eq!(judged(None, before, None, Verb::Nack), "repeated");
        assert_eq!(judged(None, before, Some(3), Verb::Nack), "stale_lease");
        assert_eq!(judged(None, before, None, Verb::Ack), "not_leased");
        assert_eq!(judged(None, None, None, Verb::Ack), "not_leased");
    }

    #[test]
    fn received_twice_is_a_repeat_and_an_ack_after_it_is_not() {
        let held = Some(Lease { received: true, ..lease(5) });
        assert_eq!(judged(held, None, Some(5), Verb::Receive), "repeated");
        assert_eq!(judged(held, None, None, Verb::Receive), "repeated");
        assert_eq!(judged(held, None, Some(5), Verb::Ack), "current");
    }

    fn outcome_of(outcome: &Outcome, attempts: u32) -> Step {
        let config = QueueConfig { max_attempts: 3, ..QueueConfig::default() };
        let policy = Policy { config: &config, max_attempts: config.max_attempts, retry: &config.retry };
        let progress = Progress { attempts, ..Progress::fresh(NOW) };
        step(id(), progress, policy, &lease(5), outcome, &Report::default(), NOW).unwrap()
    }

    #[test]
    fn a_failure_is_retried_until_the_cap_and_then_buried() {
        let failed = Outcome::Failed { error: "no".into() };
        let second = outcome_of(&failed, 1).progress;
        assert_eq!((second.state, second.attempts, second.finished_at), (State::Pending, 2, None));
        assert!(second.due >= NOW);
        let last = outcome_of(&failed, 2).progress;
        assert_eq!((last.state, last.attempts, last.finished_at), (State::Dead, 3, Some(NOW)));
        assert_eq!(last.last_error(), Some("no"));
    }

    #[test]
    fn backpressure_burns_no_attempt_however_often() {
        let later = Outcome::Backpressure { retry_after: None, scope: None, reason: None };
        let deferred = outcome_of(&later, 2).progress;
        assert_eq!((deferred.state, deferred.attempts, deferred.deferrals), (State::Pending, 2, 1));
        assert_eq!(deferred.due, NOW.plus(RETRY_AFTER_DEFAULT));
    }

    #[test]
    fn a_rejection_is_final_at_once() {
        let step = outcome_of(&Outcome::Rejected { error: "never".into() }, 0);
        assert_eq!((step.progress.state, step.signal), (State::Dead, Signal::Lost));
    }

    #[test]
    fn a_delivery_took_what_was_reported_or_the_time_since_it_was_leased() {
        let step = outcome_of(&Outcome::Failed { error: "no".into() }, 0);
        assert_eq!(step.took, Millis::from_millis(250));
        assert_eq!(step.progress.history[0].duration, Some(step.took));
        let (config, report) =
            (QueueConfig::default(), Report { duration: Some(Millis::ZERO), ..Report::default() });
        let policy = Policy { config: &config, max_attempts: 3, retry: &config.retry };
        let done = Outcome::Done { result: None, effect: None };
        let told = super::step(id(), Progress::fresh(NOW), policy, &lease(5), &done, &report, NOW).unwrap();
        assert_eq!((told.took, told.progress.history[0].duration), (Millis::ZERO, Some(Millis::ZERO)));
    }

    #[test]
    fn a_burial_burns_no_attempt_and_tells_whether_a_worker_had_the_job() {
        let waiting = Progress { attempts: 2, ..Progress::fresh(NOW) };
        for (held, took) in [(None, None), (Some(lease(5)), Some(Millis::from_millis(250)))] {
            let reason = "ß".repeat(REASON_MAX + 1);
            let buried = bury(id(), waiting.clone(), held.as_ref(), &reason, NOW).unwrap();
            assert_eq!((buried.state, buried.attempts, buried.finished_at), (State::Dead, 2, Some(NOW)));
            let entry = &buried.history[0];
            assert_eq!((entry.number, entry.status, entry.duration), (2, AttemptStatus::Failed, took));
            assert_eq!(buried.last_error().unwrap().chars().count(), REASON_MAX);
        }
        let over = Progress { state: State::Completed, ..waiting };
        let refusal = Refusal::WrongState { id: id(), state: State::Completed, action: "buried" };
        assert_eq!(bury(id(), over, None, "late", NOW), Err(refusal));
    }

    #[test]
    fn the_history_is_bounded_and_says_what_it_dropped() {
        let mut progress = Progress::fresh(NOW);
        let later = Outcome::Backpressure { retry_after: None, scope: None, reason: None };
        let config = QueueConfig::default();
        for _ in 0..crate::job::HISTORY_MAX + 5 {
            let policy = Policy { config: &config, max_attempts: 3, retry: &config.retry };
            progress =
                step(id(), progress, policy, &lease(5), &later, &Report::default(), NOW).unwrap().progress;
        }
        assert_eq!((progress.history.len(), progress.history_dropped), (crate::job::HISTORY_MAX, 5));
    }

    #[test]
    fn a_settle_that_nobody_may_send_is_refused() {
        assert!(Settle::new(id(), None, Outcome::Expired, Report::default()).is_err());
        let long = Outcome::Failed { error: "x".repeat(REASON_MAX + 1) };
        assert!(Settle::new(id(), None, long, Report::default()).is_err());
    }
}
