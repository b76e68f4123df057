//! Reading the system, and comparing it with the reference as far as the law goes.

use semel_core::breaker::Breaker;
use semel_core::gate::Gate;
use semel_core::hold::Hold;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::records::QueueRecord;
use semel_core::time::{Millis, Timestamp};

use super::queues::{self, QUEUES};
use super::reference::{self, Reference};
use super::step::KEYS;
use super::system::{Check, System, broken, same};
use crate::conformance::Harness;
use crate::query::{JobQuery, KeyRecord, SUPPRESSED_MAX};

/// Later than anything in a history: what is not ready by then, time alone does not bring.
const MUCH_LATER: Millis = Millis::from_days(4000);

impl<H: Harness> System<H> {
    /// What is compared after every step: the time, the counts, and when something will happen by itself.
    pub(super) async fn read_queues(&self, reference: &Reference) -> Check {
        let now = reference.now;
        same("times", &now, &self.store.now())?;
        let stats = self.store.stats().await.map_err(broken("stats"))?;
        same("counts", &reference.tables.stats(now), &stats)?;
        let expiry = self.store.next_expiry().await.map_err(broken("next_expiry"))?;
        same("times of the next expiry", &reference.tables.next_expiry(), &expiry)?;
        for queue in 0..QUEUES.len() {
            let theirs = self.store.next_due(&queues::name(queue)).await.map_err(broken("next_due"))?;
            never_late(reference, queue, theirs)?;
        }
        Ok(())
    }

    /// Everything there is to read.
    pub(super) async fn read_all(&self, reference: &Reference) -> Check {
        for page in [1, 7] {
            self.list(reference, &JobQuery { limit: page, ..JobQuery::default() }).await?;
        }
        for id in &reference.jobs {
            self.read_job(reference, *id).await?;
        }
        for queue in 0..QUEUES.len() {
            self.read_queue(reference, queue).await?;
        }
        let queues = self.store.queues().await.map_err(broken("queues"))?;
        let plain =
            |records: Vec<_>| records.into_iter().map(|r| plain(r, reference.now)).collect::<Vec<_>>();
        same("queues", &plain(reference.tables.queue_records()), &plain(queues))?;
        let schedules = self.store.schedules().await.map_err(broken("schedules"))?;
        same("schedules", &reference.tables.schedules(), &schedules)?;
        let api_keys = self.store.api_keys().await.map_err(broken("api_keys"))?;
        same("API keys", &reference.tables.api_keys(), &api_keys)?;
        let replays = self.store.replays().await.map_err(broken("replays"))?;
        same("replays", &reference.tables.replays(), &replays)
    }

    /// One job.
    pub(super) async fn read_job(&self, reference: &Reference, id: JobId) -> Check {
        let theirs = self.store.job(id).await.map_err(broken("job"))?;
        match (reference.tables.job(id), theirs) {
            (Some(ours), Some(theirs)) => self.same_job(reference, &ours, theirs),
            (ours, theirs) => same("jobs", &ours, &theirs),
        }
    }

    /// A whole listing, along its cursors. Pages may be cut anywhere, so only the walk is compared.
    pub(super) async fn list(&self, reference: &Reference, query: &JobQuery) -> Check {
        let mut ours = Vec::new();
        let mut at = query.clone();
        loop {
            let page = reference.tables.page(&at);
            ours.extend(page.items);
            let Some(next) = page.next else { break };
            at.cursor = Some(next);
        }
        let theirs = self.walk(query).await?;
        let ids = |jobs: &[Job]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
        same("listings", &ids(&ours), &ids(&theirs))?;
        ours.iter().zip(theirs).try_for_each(|(ours, theirs)| self.same_job(reference, ours, theirs))
    }

    async fn walk(&self, query: &JobQuery) -> Check<Vec<Job>> {
        let (mut jobs, mut at) = (Vec::new(), query.clone());
        loop {
            let page = self.store.jobs(at.clone()).await.map_err(broken("jobs"))?;
            same("whether a page is within its limit", &true, &(page.items.len() <= query.limit as usize))?;
            jobs.extend(page.items);
            let Some(next) = page.next else { return Ok(jobs) };
            let moves = at.cursor.is_none_or(|before| next.below < before.below);
            same("whether a walk goes on", &true, &moves)?;
            at.cursor = Some(next);
        }
    }

    async fn read_queue(&self, reference: &Reference, queue: usize) -> Check {
        let name = queues::name(queue);
        let theirs = self.store.queue(&name).await.map_err(broken("queue"))?;
        let plain = |record: Option<_>| record.map(|r| plain(r, reference.now));
        same("queues", &plain(reference.tables.queue_record(&name)), &plain(theirs))?;
        self.list(reference, &JobQuery { queue: Some(name.clone()), ..JobQuery::default() }).await?;
        for key in (0..KEYS.len()).map(reference::key) {
            let theirs = self.store.key(&name, &key).await.map_err(broken("key"))?;
            match (reference.tables.key_record(&name, &key, reference.now), theirs) {
                (Some(ours), Some(theirs)) => self.same_key(reference, &ours, theirs)?,
                (ours, theirs) => same("keys", &ours, &theirs)?,
            }
        }
        Ok(())
    }

    /// Compares two jobs. The last settle's token is each store's own, and a crash may take counts of duplicates along.
    fn same_job(&self, reference: &Reference, ours: &Job, mut theirs: Job) -> Check {
        if let Some(settled) = &mut theirs.progress.settled {
            settled.token = self.tokens.ours(settled.token);
        }
        if reference.crashed && theirs.duplicates < ours.duplicates {
            theirs.duplicates = ours.duplicates;
        }
        same("jobs", ours, &theirs)
    }

    fn same_key(&self, reference: &Reference, ours: &KeyRecord, mut theirs: KeyRecord) -> Check {
        if reference.crashed {
            let few = theirs.suppressed.len() <= SUPPRESSED_MAX.min(theirs.job.duplicates as usize);
            same("whether there are no more traces than suppressed publishes", &true, &few)?;
            theirs.suppressed.clone_from(&ours.suppressed);
        }
        self.same_job(reference, &ours.job, theirs.job.clone())?;
        theirs.job = ours.job.clone();
        same("keys", ours, &theirs)
    }
}

/// The law of `next_due`: it may be early, it must not be late.
pub(super) fn never_late(reference: &Reference, queue: usize, claimed: Option<Timestamp>) -> Check {
    let now = reference.now;
    let before = match claimed {
        None => now.plus(MUCH_LATER),
        Some(time) if time > now => Timestamp::from_millis(time.millis() - 1),
        Some(_) => return Ok(()),
    };
    let late = reference.has_something_at(queue, before);
    same(
        &format!("whether queue {queue}, said to have nothing before {claimed:?}, has something"),
        &false,
        &late,
    )
}

/// A queue's record with a gate in its plainest form. A wait that is over is the same as none left, however a store
/// remembers it: after a crash a probe was never sent, or was sent and lost.
fn plain(mut record: QueueRecord, now: Timestamp) -> QueueRecord {
    let Gate { hold, breaker, .. } = &mut record.gate;
    if matches!(hold, Hold::Until(time) if *time <= now) {
        *hold = Hold::Until(Timestamp::default());
    }
    if matches!(breaker, Breaker::Open { until } if *until <= now) {
        *breaker = Breaker::HalfOpen { probing: false };
    }
    record
}
