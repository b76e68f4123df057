//! Advice: what should be looked at in a running system, what it means, and which setting to change.
//!
//! ```text
//! Heralded --(answers of a commit)--> Watch: flow, key lint, commits         what this node has seen
//! store: queues, stats, health ---\
//! news: handler times -------------+--> rules --> findings                    asked for by GET /v1/advice
//! ```
//!
//! The dedupe dry run is beside it: what other keys would have done to the jobs that are stored.

mod commits;
pub mod dry_run;
mod finding;
mod flow;
mod lint;
mod rules;
mod watch;

use semel_core::name::QueueName;
use semel_core::records::QueueRecord;
use semel_store::{QueueStats, Stats, StoreError};

pub use self::finding::{Code, Fact, Finding, Severity};
pub(crate) use self::lint::Asked;
pub(crate) use self::watch::Sighting;
pub use self::watch::Watch;

use self::rules::Look;
use crate::service::Service;

/// Everything there is to say, the worst first.
pub async fn findings(service: &Service) -> Result<Vec<Finding>, StoreError> {
    let records = service.store.queues().await?;
    let mut all = look_at(service, &records).await?;
    all.extend(about_store(service).await);
    all.sort_by(|a, b| {
        b.severity.cmp(&a.severity).then_with(|| a.queue.cmp(&b.queue)).then(a.code.cmp(&b.code))
    });
    Ok(all)
}

/// Looks at all queues: what lasts is known to last from then on.
pub(crate) async fn look_at(service: &Service, records: &[QueueRecord]) -> Result<Vec<Finding>, StoreError> {
    let stats = service.store.stats().await?;
    let now = service.store.now();
    let queues: Vec<_> =
        records.iter().map(|record| (record.clone(), stats_of(&stats, &record.name))).collect();
    let watch = &service.news.watch;
    watch.observe(&queues, now);
    let judge = |(record, stats): &(QueueRecord, QueueStats)| {
        let (times, body_limit) = (service.news.times.of(&record.name), service.options.body_limit as u64);
        watch.of(&record.name, |seen, standing| {
            rules::judge(&Look { record, stats, times, seen, standing, body_limit, now })
        })
    };
    let mut found: Vec<_> = queues.iter().flat_map(judge).collect();
    found.extend(watch.reuse(|reuse| rules::judge_reuse(reuse, now)));
    watch.date(&mut found, true, now);
    Ok(found)
}

fn stats_of(stats: &Stats, queue: &QueueName) -> QueueStats {
    let at = stats.queues.binary_search_by(|stats| stats.queue.cmp(queue));
    at.map_or_else(|_| QueueStats::empty(queue.clone()), |at| stats.queues[at].clone())
}

async fn about_store(service: &Service) -> Vec<Finding> {
    let (store, watch) = (&service.store, &service.news.watch);
    let now = store.now();
    let mut found: Vec<_> = watch.commits(now).and_then(rules::store::commits).into_iter().collect();
    match store.health().await {
        Ok(health) => found.extend(rules::store::health(&health)),
        // Whoever asks for advice while the store is in trouble needs what can be said all the same.
        Err(error) => found.push(rules::store::unexamined(&error)),
    }
    watch.date(&mut found, false, now);
    found
}
