//! Queues in which nothing moves.

use semel_core::breaker::Breaker;
use semel_core::hold::Hold;
use semel_core::queue::Delivery;
use semel_core::time::{Millis, Timestamp};

use super::Look;
use crate::advice::finding::{Code, Fact, Finding, Severity};

/// How long a hold may last: a rate limit of somebody else's is usually by the minute.
const HELD_LONG: Millis = Millis::from_secs(600);

/// How long a breaker may be open.
const OPEN_LONG: Millis = Millis::from_secs(300);

/// How long jobs may wait in a paused queue before that looks forgotten.
const PAUSED_LONG: Millis = Millis::from_secs(900);

/// How long a job may be ready while nobody works.
const UNATTENDED_LONG: Millis = Millis::from_secs(300);

/// Everything that stands still.
pub(super) fn judge(look: &Look<'_>) -> Vec<Finding> {
    let found = [paused(look), breaker_open(look), held(look), no_worker(look)];
    found.into_iter().flatten().collect()
}

/// The job that has been ready longest, if it has been so for this long.
fn waiting(look: &Look<'_>, long: Millis) -> Option<(Timestamp, Millis)> {
    let since = look.stats.oldest_ready?;
    let age = look.now.since(since);
    (age >= long).then_some((since, age))
}

fn paused(look: &Look<'_>) -> Option<Finding> {
    let (since, age) = waiting(look, PAUSED_LONG).filter(|_| look.record.gate.paused)?;
    let (queue, pending) = (&look.record.name, look.stats.pending);
    Some(
        look.found(
            Code::PausedBacklog,
            Severity::Warning,
            format!("the queue is paused and {pending} jobs wait"),
        )
        .means(format!(
            "The first of them has been waiting for {age}. Nothing is delivered until the queue is resumed."
        ))
        .remedy(format!("Resume it: semel queue resume {queue}, or POST /v1/queues/{queue}/resume."))
        .count("pending", pending)
        .fact("oldestReady", Fact::At(since)),
    )
}

/// How long the gate has been shut by a hold or a breaker.
fn shut_for(look: &Look<'_>, long: Millis) -> Option<Millis> {
    let since =
        look.standing.shut_since.filter(|_| look.stats.unfinished() > 0 && !look.record.gate.paused)?;
    Some(look.now.since(since)).filter(|span| *span >= long)
}

fn breaker_open(look: &Look<'_>) -> Option<Finding> {
    let config = look.record.config.breaker.filter(|_| !look.record.gate.breaker.is_closed())?;
    let span = shut_for(look, OPEN_LONG)?;
    let pending = look.stats.pending;
    let finding = look
        .found(Code::BreakerOpen, Severity::Critical, format!("the breaker has been open for {span}; {pending} jobs wait"))
        .means("The workers or the endpoint failed, and every probe since then has, too.")
        .remedy(format!(
            "Mend the workers or the endpoint: the next probe that works closes the breaker by itself. It probes every \
             {} (breaker.cooldown).",
            config.cooldown
        ))
        .count("pending", pending)
        .fact("openFor", Fact::Span(span));
    Some(match look.record.gate.breaker {
        Breaker::Open { until } => finding.fact("nextProbe", Fact::At(until)),
        _ => finding,
    })
}

fn held(look: &Look<'_>) -> Option<Finding> {
    let ahead = match look.record.gate.hold {
        Hold::Open => return None,
        Hold::Until(until) => until.since(look.now),
        Hold::Probing => Millis::ZERO,
    };
    let long_ahead = (ahead >= HELD_LONG && look.stats.unfinished() > 0).then_some(Millis::ZERO);
    let behind = shut_for(look, HELD_LONG).or(long_ahead)?;
    let pending = look.stats.pending;
    Some(
        look.found(
            Code::HeldLong,
            Severity::Warning,
            format!("backpressure has held the queue for {behind}, and {ahead} more; {pending} jobs wait"),
        )
        .means("Workers answered 429 or 503, or deferred, and the whole queue waits for them. No attempt is burned.")
        .remedy(
            "Have workers ask for less time (Retry-After, retryAfter), or set rate to what they can take. Set deferScope \
             to \"job\" if one job that has to wait should not hold the others.",
        )
        .count("pending", pending)
        .fact("heldFor", Fact::Span(behind))
        .fact("heldAhead", Fact::Span(ahead)),
    )
}

fn no_worker(look: &Look<'_>) -> Option<Finding> {
    let Delivery::Pull(_) = &look.record.config.delivery else { return None };
    let may_go = look.record.gate.next_at(&look.record.config, 0, look.now).is_some_and(|at| at <= look.now);
    let is_idle = look.stats.processing + look.stats.awaiting_ack == 0;
    let unattended = look.now.since(look.standing.active_at);
    let (since, age) = waiting(look, UNATTENDED_LONG)?;
    (may_go && is_idle && unattended >= UNATTENDED_LONG).then(|| {
        let (queue, pending) = (&look.record.name, look.stats.pending);
        look.found(
            Code::NoWorker,
            Severity::Critical,
            format!("{pending} jobs wait and no worker asks for them"),
        )
        .means(format!(
            "The first has been ready for {age}, and nobody has worked in this queue for {unattended}."
        ))
        .remedy(format!(
            "Start a worker that leases from {queue} (POST /v1/queues/{queue}/lease), or set delivery to \
                 {{\"type\": \"push\", \"url\": ...}} to have jobs sent to one."
        ))
        .count("pending", pending)
        .fact("oldestReady", Fact::At(since))
        .fact("idleFor", Fact::Span(unattended))
    })
}
