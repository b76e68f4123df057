//! How deliveries end: too late, not at all, or among the dead letters.

use semel_core::queue::{Delivery, QueueConfig};
use semel_core::time::Millis;

use super::{Look, percent};
use crate::advice::finding::{Code, Fact, Finding, Severity};
use crate::advice::flow::Count;
use crate::upkeep::advice::{limit_of, too_short};

/// How far back deliveries are looked at, in minutes.
const MINUTES: u64 = 10;

/// Deliveries that must have failed before a share of them says anything.
const FAILED_MIN: u64 = 20;

/// Failures without a single success after which an endpoint is taken to be down or wrong.
const ENDPOINT_MIN: u64 = 10;

/// Leases that must have run out, and their share in percent: a worker that is restarted loses a few.
const EXPIRED_MIN: u64 = 10;
const EXPIRED_PERCENT: u64 = 10;

/// Dead letters of a quarter of an hour, and their share of the jobs that ended, that are more than bad luck.
const DEAD_MIN: u64 = 10;
const DEAD_PERCENT: u64 = 5;
const DEAD_MINUTES: u64 = 15;

/// What a breaker is suggested to be.
const BREAKER: &str = "{\"failures\": 5, \"cooldown\": 30}";

/// Everything that the ends of deliveries give away.
pub(super) fn judge(look: &Look<'_>) -> Vec<Finding> {
    let failing = endpoint_failing(look).or_else(|| retry_storm(look));
    [lease_short(look), leases_expiring(look), failing, dead_letters(look)].into_iter().flatten().collect()
}

fn lease_short(look: &Look<'_>) -> Option<Finding> {
    let found = too_short(&look.record.config, look.times?)?;
    let (setting, limit, needs, times) = (found.setting, found.limit, found.needs, found.times);
    let seconds = needs.millis() / 1000;
    Some(
        look.found(
            Code::LeaseShort,
            Severity::Warning,
            format!("{setting} is {limit}, but one in a hundred deliveries takes {} or more", times.p99),
        )
        .means("Slow runs are handed to somebody else while they are still going on, so they are done twice.")
        .remedy(format!("Set {setting} to {seconds} seconds, {}.", found.instead))
        .fact("setting", Fact::text(setting))
        .fact("has", Fact::Span(limit))
        .fact("needs", Fact::Span(needs))
        .count("deliveries", times.count)
        .fact("p50", Fact::Span(times.p50))
        .fact("p99", Fact::Span(times.p99)),
    )
}

fn leases_expiring(look: &Look<'_>) -> Option<Finding> {
    let [expired, done, failed] =
        [Count::Expired, Count::Done, Count::Failed].map(|what| look.seen.flow.last(MINUTES, what, look.now));
    let share = percent(expired, expired + done + failed);
    let (setting, limit, instead) = limit_of(&look.record.config);
    (expired >= EXPIRED_MIN && share >= EXPIRED_PERCENT).then(|| {
        let double = limit.times(2).millis().div_ceil(1000);
        look.found(
            Code::LeasesExpiring,
            Severity::Warning,
            format!("{expired} deliveries of the last {MINUTES} minutes ran out ({share} %)"),
        )
        .means("Workers die, forget to settle, or need more time than they get. What they did may be done again.")
        .remedy(format!("Set {setting} to {double} seconds (it is {limit}), {instead}; look for workers that crash."))
        .fact("setting", Fact::text(setting))
        .fact("has", Fact::Span(limit))
        .count("expired", expired)
        .count("done", done)
        .count("failed", failed)
    })
}

fn endpoint_failing(look: &Look<'_>) -> Option<Finding> {
    let Delivery::Push(push) = &look.record.config.delivery else { return None };
    let [done, failed] =
        [Count::Done, Count::Failed].map(|what| look.seen.flow.last(MINUTES, what, look.now));
    (done == 0 && failed >= ENDPOINT_MIN).then(|| {
        let breaker = match look.record.config.breaker {
            None => format!(" Set breaker to {BREAKER} to call it less while it is down."),
            Some(_) => String::new(),
        };
        look.found(
            Code::EndpointFailing,
            Severity::Critical,
            format!("all {failed} deliveries of the last {MINUTES} minutes failed"),
        )
        .means("The endpoint is down, or delivery.url is wrong. Jobs use up their attempts and become dead letters.")
        .remedy(format!(
            "Mend the endpoint or set delivery.url; pause the queue until then, so that no attempt is burned.{breaker}"
        ))
        .fact("url", Fact::text(&push.url))
        .count("failed", failed)
    })
}

fn retry_storm(look: &Look<'_>) -> Option<Finding> {
    let [done, failed] =
        [Count::Done, Count::Failed].map(|what| look.seen.flow.last(MINUTES, what, look.now));
    let share = percent(failed, done + failed);
    (failed >= FAILED_MIN && share >= 50).then(|| {
        let per_job = (done + failed) * 10 / done.max(1);
        look.found(
            Code::RetryStorm,
            Severity::Warning,
            format!("{share} % of the deliveries of the last {MINUTES} minutes failed ({failed})"),
        )
        .means(format!(
            "Workers are mostly busy with retries: {}.{} deliveries for each job that was done. The more fail, the more \
             come back.",
            per_job / 10,
            per_job % 10
        ))
        .remedy(calmer(&look.record.config))
        .count("failed", failed)
        .count("done", done)
        .fact("minutes", Fact::Count(MINUTES))
    })
}

/// What slows retries down.
fn calmer(config: &QueueConfig) -> String {
    let slower = config.retry.base.times(2).max(Millis::from_secs(1)).millis().div_ceil(1000);
    let raise = format!("set retry.base to {slower} seconds (it is {})", config.retry.base);
    match config.breaker {
        None => format!(
            "Set breaker to {BREAKER}, so that a failing queue is probed and not flooded, or {raise}."
        ),
        Some(breaker) => format!(
            "The breaker ({} failures) does not open often enough: lower breaker.failures, or {raise}.",
            breaker.failures
        ),
    }
}

fn dead_letters(look: &Look<'_>) -> Option<Finding> {
    let [dead, done] =
        [Count::Dead, Count::Done].map(|what| look.seen.flow.last(DEAD_MINUTES, what, look.now));
    let share = percent(dead, dead + done);
    (dead >= DEAD_MIN && share >= DEAD_PERCENT).then(|| {
        let config = &look.record.config;
        let (attempts, span) = (config.max_attempts, config.retry.longest_span(config.max_attempts));
        look.found(
            Code::DeadLettersGrowing,
            Severity::Warning,
            format!("{dead} jobs of the last {DEAD_MINUTES} minutes became dead letters ({share} % of those that ended)"),
        )
        .means("Their work was not done. They are kept with payload and history, and can be replayed.")
        .remedy(format!(
            "See what they died of (semel dead, GET /v1/queues/{{queue}}/dead?groupBy=error), mend that and replay them. \
             If it passes by itself, set maxAttempts above {attempts}: their retries span {span}."
        ))
        .count("dead", dead)
        .count("done", done)
        .count("deadLetters", look.stats.dead)
        .count("maxAttempts", attempts)
    })
}
