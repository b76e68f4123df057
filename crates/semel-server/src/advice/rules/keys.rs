//! What the keys of a queue give away about its publishers.

use semel_core::queue::OnCollision;
use semel_core::time::Timestamp;

use super::Look;
use crate::advice::finding::{Code, Fact, Finding, Severity};
use crate::advice::flow::Count;
use crate::advice::lint::{Collided, Repeated, Reuse};

/// Samples that are shown of one finding.
const SAMPLES: usize = 3;

/// Other payloads under one key that make it too coarse rather than an accident.
const COARSE: usize = 3;

/// Keys that two queues have in common before that is told: one or two are a coincidence of short keys.
const REUSED: u32 = 3;

/// How often a job may be published again before that is told, where the queue sets no limit of its own.
const PERSISTENT: u32 = 50;

/// How far back duplicates are looked for, in minutes.
const MINUTES: u64 = 15;

/// Everything that the keys of a queue give away.
pub(super) fn judge(look: &Look<'_>) -> Vec<Finding> {
    let found = [random(look), timestamp(look), coarse(look).or_else(|| collisions(look)), persistent(look)];
    found.into_iter().flatten().collect()
}

const RIGHT_KEY: &str = "Make the key of what the work is about (order-9482), before the first try, and send the same \
                         key with every try";

fn random(look: &Look<'_>) -> Option<Finding> {
    let found = look.seen.lint.random_keys(look.now);
    let worst = found.first()?;
    let (keys, span) = (worst.keys(), worst.span());
    let finding = look
        .found(
            Code::KeysRandom,
            Severity::Warning,
            format!("the same payload was published under {keys} different random keys within {span}"),
        )
        .means(
            "It looks as if the publisher makes a new key for each try. Then no retry is recognised, and every try runs.",
        )
        .remedy(format!(
            "{RIGHT_KEY}. Set keyPattern to what such a key looks like (for example \"order-\\\\d+\") to have others \
             refused; try it first with a dedupe dry run."
        ));
    Some(repeated(finding, &found))
}

fn timestamp(look: &Look<'_>) -> Option<Finding> {
    let found = look.seen.lint.timed_keys(look.now);
    if let Some(worst) = found.first() {
        let (keys, span) = (worst.keys(), worst.span());
        let summary =
            format!("the same payload was published under {keys} keys that differ in the time only ({span})");
        let finding = look
            .found(Code::KeysTimestamp, Severity::Warning, summary)
            .means("The time of the try is part of the key. Then no retry is recognised, and every try runs.")
            .remedy(format!(
                "{RIGHT_KEY}, without the time. Set keyPattern to what such a key looks like to have others refused."
            ));
        return Some(repeated(finding, &found));
    }
    // A key that came back was kept by its publisher, so the time in it is part of the work and not of the try.
    let came_back = look.seen.flow.last(MINUTES, Count::Deduplicated, look.now);
    let share = look.seen.lint.minted_keys(look.now).filter(|_| came_back == 0)?;
    let finding = look
        .found(
            Code::KeysTimestamp,
            Severity::Info,
            format!(
                "{} of {} keys contain the time at which they were published",
                share.timed, share.examined
            ),
        )
        .means(
            "If that time is taken anew for each try, no retry is recognised. No key has come back lately.",
        )
        .remedy(format!(
            "{RIGHT_KEY}. If the time belongs to the work (a measurement), nothing has to be done."
        ))
        .count("examined", share.examined)
        .count("withTime", share.timed);
    Some(finding.fact("samples", Fact::Samples(vec![vec![("key", Fact::text(share.sample))]])))
}

fn repeated(finding: Finding, found: &[&Repeated]) -> Finding {
    let sample = |repeated: &&Repeated| {
        let [first, last] = repeated.samples();
        vec![
            ("keys", Fact::Count(repeated.keys().into())),
            ("within", Fact::Span(repeated.span())),
            ("key", Fact::text(first)),
            ("otherKey", Fact::text(last)),
        ]
    };
    let samples = found.iter().take(SAMPLES).map(sample).collect();
    finding.count("payloads", found.len() as u64).fact("samples", Fact::Samples(samples))
}

/// What a collision does to the work, and what to set.
fn collision_words(look: &Look<'_>) -> (Severity, &'static str, &'static str) {
    match look.record.config.on_collision {
        OnCollision::Flag => (
            Severity::Critical,
            "The first payload is worked; the others are answered as duplicates and never run (payloadMatches: false).",
            "Make the key finer, so that it names one piece of work (order-9482-refund-1, not order-9482). Set \
             onCollision to \"reject\" so that publishers hear of it; list what may differ in collisionIgnore",
        ),
        OnCollision::Reject => (
            Severity::Warning,
            "The first payload is worked; publishers of the others are refused with key_collision.",
            "Make the key finer, so that it names one piece of work (order-9482-refund-1, not order-9482); list what \
             may differ in collisionIgnore",
        ),
    }
}

fn coarse(look: &Look<'_>) -> Option<Finding> {
    let found = look.seen.lint.collisions(look.now);
    let worst = found.first().filter(|worst| worst.other_payloads() >= COARSE)?;
    let (severity, means, remedy) = collision_words(look);
    let summary = format!("one key came with at least {} different payloads", worst.other_payloads() + 1);
    Some(collided(
        look.found(Code::KeysCoarse, severity, summary).means(means).remedy(format!("{remedy}.")),
        &found,
    ))
}

fn collisions(look: &Look<'_>) -> Option<Finding> {
    let found = look.seen.lint.collisions(look.now);
    let times: u64 = found.iter().map(|collided| u64::from(collided.times)).sum();
    let keys = found.len();
    found.first()?;
    let (severity, means, remedy) = collision_words(look);
    // One or two are a mistake somewhere, not the way in which the keys are made.
    let severity = severity.min(Severity::Warning);
    let summary =
        format!("{times} publishes of the last hour came with another payload than their key stands for");
    let finding = look.found(Code::Collisions, severity, summary).means(means).remedy(format!("{remedy}."));
    Some(collided(finding.count("publishes", times).count("keys", keys as u64), &found))
}

fn collided(finding: Finding, found: &[&Collided]) -> Finding {
    let sample = |collided: &&Collided| {
        vec![
            ("key", Fact::text(&collided.key)),
            ("publishes", Fact::Count(collided.times.into())),
            ("otherPayloads", Fact::Count(collided.other_payloads() as u64)),
            ("lastAt", Fact::At(collided.last_at)),
        ]
    };
    finding.fact("samples", Fact::Samples(found.iter().take(SAMPLES).map(sample).collect()))
}

fn persistent(look: &Look<'_>) -> Option<Finding> {
    let limit = look.record.config.duplicates.map_or(PERSISTENT, |rule| rule.limit);
    let found = look.seen.lint.persistent(limit, look.now);
    let worst = found.first()?;
    let sample = |job: &&crate::advice::lint::Persistent| {
        vec![
            ("job", Fact::text(&job.id)),
            ("key", Fact::text(&job.key)),
            ("publishedAgain", Fact::Count(job.times.into())),
        ]
    };
    let samples = found.iter().take(SAMPLES).map(sample).collect();
    let summary = format!("one key was published again {} times", worst.times);
    let remedy = "Find the publisher in the key's timeline (semel key, GET /v1/queues/{queue}/keys/{key}) and have it stop \
                  when it is answered. Set duplicates to {\"limit\": 50, \"action\": \"dead\"} to stop such a job.";
    Some(
        look.found(Code::DuplicatesPersistent, Severity::Warning, summary)
            .means("Deduplication hides a publisher that does not take yes for an answer: a loop, or a retry without end.")
            .remedy(remedy)
            .count("limit", limit)
            .count("jobs", found.len() as u64)
            .fact("samples", Fact::Samples(samples)),
    )
}

/// Queues that share keys.
pub(super) fn reused(reuse: &Reuse, now: Timestamp) -> Vec<Finding> {
    let many = reuse.recent(now).filter(|pair| pair.keys >= REUSED);
    many.map(|pair| {
        let [one, other] = &pair.queues;
        let samples = pair.samples.iter().map(|key| vec![("key", Fact::text(key))]).collect();
        let summary = format!("{} keys were used in {other}, too", pair.keys);
        let mut finding = Finding::of(one, Code::KeysReused, Severity::Info, summary)
            .means(
                "Keys are scoped by queue, so neither stops the other. That is right for different work on the same \
                 thing, and wrong if one piece of work reaches both queues.",
            )
            .remedy("If it is the same work, publish it to one queue. Otherwise nothing has to be done.")
            .fact("otherQueue", Fact::text(other))
            .count("keys", pair.keys)
            .count("samePayload", pair.same_payload)
            .fact("samples", Fact::Samples(samples));
        finding.other = Some(other.clone());
        finding
    })
    .collect()
}
