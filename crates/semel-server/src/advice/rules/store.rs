//! How the store fares.

use semel_core::time::Millis;
use semel_store::{Health, StoreError};

use crate::advice::commits::Pace;
use crate::advice::finding::{Code, Fact, Finding, Severity};

/// What the slowest commit in a hundred may take. A publish waits for its commit, so publishers feel it.
const SLOW: Millis = Millis::from_millis(250);

/// What it takes when something is about to break.
const STUCK: Millis = Millis::from_millis(2000);

/// How many times its reserve a store should have free: with less it is time to do something about it, with one it is late.
const RESERVES: u64 = 10;

/// A log that has grown to this is not starting over: the embedded store's usually does at an eighth of it.
const LOG_LONG: u64 = 256 * 1024 * 1024;

/// Whether commits take long.
pub(in crate::advice) fn commits(pace: Pace) -> Option<Finding> {
    let Pace { count, p50, p99 } = pace;
    let severity = if p99 >= STUCK { Severity::Critical } else { Severity::Warning };
    (p99 >= SLOW).then(|| {
        Finding::about_store(Code::CommitsSlow, severity, format!("one commit in a hundred takes {p99} or more"))
            .means("Publishes and settles are answered when their commit is durable, so every caller waits for it.")
            .remedy(
                "Give the store a disk that syncs faster and has no other users. On PostgreSQL, run semel doctor --store \
                 URL and look at the database's load and at the way to it.",
            )
            .count("commits", count as u64)
            .fact("p50", Fact::Span(p50))
            .fact("p99", Fact::Span(p99))
    })
}

/// Everything that the store's own figures give away.
pub(in crate::advice) fn health(health: &Health) -> Vec<Finding> {
    [space(health), log(health)].into_iter().flatten().collect()
}

fn space(health: &Health) -> Option<Finding> {
    let (free, reserve) = (health.free_bytes?, health.reserve_bytes?);
    let wanted = reserve.saturating_mul(RESERVES);
    let (severity, means) = match free {
        _ if health.full || free < reserve => {
            (Severity::Critical, "New jobs are refused (storage_full) until there is room; settles go on.")
        }
        _ if free < wanted => {
            (Severity::Warning, "When less than the reserve is left, new jobs are refused (storage_full).")
        }
        _ => return None,
    };
    Some(
        Finding::about_store(Code::StoreSpace, severity, format!("the disk has {} left", mebibytes(free)))
            .means(means)
            .remedy(format!(
                "Free at least {} on the disk, or lower retention.completed and retention.dead of the large queues.",
                mebibytes(wanted.saturating_sub(free))
            ))
            .count("freeBytes", free)
            .count("reserveBytes", reserve)
            .count("storeBytes", health.bytes.unwrap_or(0)),
    )
}

fn log(health: &Health) -> Option<Finding> {
    let log = health.log_bytes.filter(|log| *log >= LOG_LONG)?;
    let summary = format!("the store's log has grown to {}", mebibytes(log));
    Some(
        Finding::about_store(Code::StoreLog, Severity::Warning, summary)
            .means("The disk cannot keep up with moving it into the database, so commits slow down and a start takes longer.")
            .remedy("Give the store a faster disk, or end what reads from the directory for long, such as a copy of it.")
            .count("logBytes", log)
            .count("storeBytes", health.bytes.unwrap_or(0)),
    )
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}

/// The store could not be examined.
pub(in crate::advice) fn unexamined(error: &StoreError) -> Finding {
    let summary = format!("the store could not be examined: {error}");
    Finding::about_store(Code::StoreUnexamined, Severity::Warning, summary)
        .means("Its free space and its log are not known.")
        .remedy("See /readyz and the server's log. On PostgreSQL, run semel doctor --store URL.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn found(health: &Health) -> Vec<(Code, Severity)> {
        super::health(health).iter().map(|finding| (finding.code, finding.severity)).collect()
    }

    #[test]
    fn space_is_told_of_before_jobs_are_refused() {
        let with =
            |free| Health { free_bytes: Some(free), reserve_bytes: Some(64 * MIB), ..Health::default() };
        assert_eq!(found(&with(640 * MIB)), []);
        assert_eq!(found(&with(640 * MIB - 1)), [(Code::StoreSpace, Severity::Warning)]);
        assert_eq!(found(&with(64 * MIB - 1)), [(Code::StoreSpace, Severity::Critical)]);
        let full = Health { full: true, ..with(80 * MIB) };
        assert_eq!(found(&full), [(Code::StoreSpace, Severity::Critical)], "it refuses until more is free");
        let remedy = &super::health(&with(40 * MIB))[0].remedy;
        assert!(remedy.contains("600 MiB") && remedy.contains("retention.completed"), "{remedy}");
        assert_eq!(found(&Health::default()), [], "what is not known is not judged");
    }

    #[test]
    fn a_log_that_does_not_start_over_is_told_of() {
        let with = |log| Health { log_bytes: Some(log), ..Health::default() };
        assert_eq!(found(&with(LOG_LONG - 1)), []);
        assert_eq!(found(&with(LOG_LONG)), [(Code::StoreLog, Severity::Warning)]);
    }

    #[test]
    fn slow_commits_are_told_of_and_stuck_ones_are_worse() {
        let with = |p99| Pace { count: 100, p50: Millis::from_millis(2), p99: Millis::from_millis(p99) };
        let found = |p99| commits(with(p99)).map(|finding| finding.severity);
        assert_eq!(
            [found(249), found(250), found(2000)],
            [None, Some(Severity::Warning), Some(Severity::Critical)]
        );
    }
}
