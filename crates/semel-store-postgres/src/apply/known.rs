//! The short way: a batch that this node can decide by what it remembers, in one call.
//!
//! Publishes under new keys, and settles of deliveries that this node handed out. Everything is decided before anything is
//! asked: by the queues as this node remembers them, by the database's clock as it follows it, as if no key were known, and as
//! if nothing had happened to the deliveries since. The one call checks all of that where it counts, and changes nothing if it
//! is not so. Then the batch goes the long way, which asks first.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::gate::Gate;
use semel_core::lease::Lease;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::working::{Stored, StoredQueue, WorkingSet};
use semel_store::{Answer, Command};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::lent::Lent;
use super::wants::Wants;
use super::writes::Writes;
use super::{Setback, save};
use crate::catalog::{Seen, queue_id};
use crate::fault::Fault;
use crate::row::{Cells, JobColumns, is_free, sql_time, sql_token};
use crate::session::{Param, Session, Sql};
use crate::store::PostgresStore;

/// How far the time that was decided by may be from the database's, in milliseconds: more than a call takes, and less than
/// anybody notices of a job's age.
pub(super) const SLACK: i64 = 1000;

/// How many batches with publishes go the long way after one of them met a key that is known. Who retries publishes does so
/// for a while.
pub(super) const UNLUCKY: u32 = 16;

/// What the call says of a delivery that is not as it was handed out.
const NOT_AS_HANDED_OUT: &str = "SM001";

static APPLY_KNOWN: Sql = Sql {
    text: "SELECT semel.apply_known($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
                                    $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31)",
    types: &[
        // What it was decided by.
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8,
        Type::INT8,
        // KeyIds
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        // New jobs.
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        // What most of them have nothing to say about.
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        // Jobs that end, with the token of the delivery.
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        // TallyColumns
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

/// Whether new keys are to be expected: how many batches must still go the long way.
#[derive(Debug, Default)]
pub(crate) struct Luck(AtomicU32);

impl Luck {
    pub(super) fn holds(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    fn runs_out(&self) {
        self.0.store(UNLUCKY, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Applies a batch the short way; nothing if it has to go the long one, and then nothing has happened.
pub(super) async fn apply(
    store: &PostgresStore,
    session: &Session,
    batch: &[Command],
    wants: &Wants,
) -> Result<Option<Vec<Answer>>, Setback> {
    let suits = |command: &Command| matches!(command, Command::Publish(_) | Command::Settle(_));
    if !batch.iter().all(suits) {
        return Ok(None);
    }
    // Taken in any case: whichever way the batch goes, they do not come back.
    let Some(handed_out) = store.handed_out.take(wants.jobs.keys()) else { return Ok(None) };
    let publishes = batch.iter().any(|command| matches!(command, Command::Publish(_)));
    if publishes && !store.luck.holds() {
        return Ok(None);
    }
    let Some(queues) = known_queues(store, wants, &handed_out) else { return Ok(None) };
    let decided = Decided::by_memory(store, batch, wants, &queues, handed_out);
    if !decided.suits(batch) {
        decided.lent.give_back(store);
        return Ok(None);
    }
    let slack = store.clock.instead().is_none().then_some(SLACK);
    let sent = decided.send(session, &queues, slack).await;
    let applied = heard(store, sent, decided.lent, queues.iter().map(|(name, _)| name))?;
    if applied {
        let now = store.clock.now();
        decided.writes.appears().for_each(|(queue, due)| store.marks.appeared(queue, due, now));
    }
    Ok(applied.then_some(decided.answers))
}

/// What the answer to such a call means: whether it was applied. If not, nothing has happened, and what this node took for true
/// and was not is forgotten.
pub(super) fn heard<'a>(
    store: &PostgresStore,
    sent: Result<Option<i64>, Fault>,
    lent: Lent,
    queues: impl IntoIterator<Item = &'a QueueName>,
) -> Result<bool, Setback> {
    match sent {
        Ok(Some(now)) => {
            store.clock.decides(now);
            return Ok(true);
        }
        Ok(None) => queues.into_iter().for_each(|name| store.catalog.forget(name)),
        Err(fault) if is_known_key(&fault) => store.luck.runs_out(),
        Err(fault) if is_not_as_handed_out(&fault) => {}
        // The call is a transaction of its own: what is lost of it is lost after its COMMIT, as far as one can tell.
        Err(fault) => return Err(Setback::Unclear(fault)),
    }
    lent.give_back(store);
    Ok(false)
}

/// The queues as this node remembers them, in the order in which they are locked; nothing if one is not known, or if
/// something limits it, so that its state counts.
fn known_queues(store: &PostgresStore, wants: &Wants, ending: &[Stored]) -> Option<Vec<(QueueName, Seen)>> {
    let known = |name: &QueueName| {
        let seen = store.catalog.last_seen(name)?;
        is_free(&seen.rules.config, &Gate::default()).then(|| (name.clone(), seen))
    };
    let left = ending.iter().map(|stored| &stored.job.spec.queue);
    let names: BTreeSet<_> = wants.queues.iter().chain(left).collect();
    let mut queues: Vec<_> = names.into_iter().map(known).collect::<Option<_>>()?;
    queues.sort_by_key(|(_, seen)| seen.id);
    let same = |stored: &Stored| queues.iter().any(|(_, seen)| queue_id(seen.id) == stored.queue);
    ending.iter().all(same).then_some(queues)
}

/// A batch that was decided by what this node remembers.
struct Decided {
    answers: Vec<Answer>,
    writes: Writes,
    now: Timestamp,
    lent: Lent,
    /// The deliveries that were out, in the order of their jobs.
    leases: Vec<Lease>,
}

impl Decided {
    fn by_memory(
        store: &PostgresStore,
        batch: &[Command],
        wants: &Wants,
        queues: &[(QueueName, Seen)],
        handed_out: Vec<Stored>,
    ) -> Self {
        let now = store.clock.expected();
        let (mut set, mut rules) = (WorkingSet::new(), BTreeMap::new());
        for (name, seen) in queues {
            set.load_queue(name.clone(), remembered(seen));
            rules.insert(seen.id, Arc::clone(&seen.rules));
        }
        let numbers: BTreeMap<_, _> = queues.iter().map(|(name, seen)| (name, seen.id)).collect();
        for (queue, key) in wants.keys.keys() {
            if let Some(number) = numbers.get(queue) {
                set.load_key(queue_id(*number), key.clone(), BTreeSet::new());
            }
        }
        let leases = handed_out.iter().filter_map(|stored| stored.lease).collect();
        handed_out.into_iter().for_each(|stored| set.load_job(stored));
        let (answers, lent) = Lent::decide(store, &mut set, batch, None, now);
        let writes = save::writes(&set.changes(), &rules, &answers, now);
        Self { answers, writes, now, lent, leases }
    }

    /// Whether all that it decided is what the call checks: every delivery ends its job, so that its lease is looked at.
    fn suits(&self, batch: &[Command]) -> bool {
        let settled = batch.iter().zip(&self.answers).all(|(command, answer)| match command {
            Command::Settle(_) => answer.is_ok(),
            _ => true,
        });
        settled && self.writes.are_plain(self.now) && self.writes.done_new.id.len() == self.leases.len()
    }

    /// Makes the call. The database's time if all was as it was thought to be.
    async fn send(
        &self,
        session: &Session,
        queues: &[(QueueName, Seen)],
        slack: Option<i64>,
    ) -> Result<Option<i64>, Fault> {
        let (numbers, versions): (Vec<i32>, Vec<i64>) =
            queues.iter().map(|(_, seen)| (seen.id, seen.version)).unzip();
        let now = sql_time(self.now);
        let Writes { new_keys, jobs, done_new: ends, tallies, .. } = &self.writes;
        let tokens: Vec<i64> = self.leases.iter().map(|lease| sql_token(lease.token)).collect();
        let mut params: Vec<Param<'_>> = vec![&numbers, &versions, &now, &slack];
        params.extend(new_keys.params());
        params.extend(job_params(jobs, now));
        params.extend([&ends.id as Param<'_>, &tokens, &ends.queue, &ends.state, &ends.due, &ends.attempts]);
        params.extend([&ends.deferrals as Param<'_>, &ends.progress, &ends.look_at]);
        params.extend(tallies.params());
        Cells::of(&session.query_one(&APPLY_KNOWN, &params).await?).take()
    }
}

/// New jobs as the call takes them: what is alike in all of them it knows.
fn job_params(jobs: &JobColumns, now: i64) -> Vec<Param<'_>> {
    let JobColumns {
        id, queue, key, fingerprint, payload, run_at, priority, grp, metadata, overrides, ..
    } = jobs;
    let mut params: Vec<Param<'_>> = vec![id, queue, key, fingerprint, payload];
    if are_alike(jobs, now) {
        params.extend([&None::<Vec<i64>> as Param<'_>, &None::<Vec<i16>>, &None::<Vec<String>>]);
        params.extend([&None::<Vec<String>> as Param<'_>, &None::<Vec<String>>]);
    } else {
        params.extend([run_at as Param<'_>, priority, grp, metadata, overrides]);
    }
    params
}

/// Whether all of these are of one queue, due at once, and say nothing for themselves.
fn are_alike(jobs: &JobColumns, now: i64) -> bool {
    let silent = [&jobs.grp, &jobs.metadata, &jobs.overrides];
    silent.iter().all(|column| column.iter().all(Option::is_none))
        && jobs.queue.windows(2).all(|pair| pair[0] == pair[1])
        && jobs.priority.iter().all(|priority| *priority == 0)
        && jobs.run_at.iter().all(|run_at| *run_at == now)
}

/// A queue that nothing limits. What publishing and settling do not ask for need not be known.
fn remembered(seen: &Seen) -> StoredQueue {
    StoredQueue {
        id: queue_id(seen.id),
        rules: Arc::clone(&seen.rules),
        gate: Gate::default(),
        secrets: Vec::new(),
        created_at: Timestamp::default(),
    }
}

fn is_known_key(fault: &Fault) -> bool {
    let Fault::Refused { state, table, .. } = fault else { return false };
    *state == SqlState::UNIQUE_VIOLATION && table.as_deref().is_some_and(|table| table.starts_with("key"))
}

fn is_not_as_handed_out(fault: &Fault) -> bool {
    matches!(fault, Fault::Refused { state, .. } if state.code() == NOT_AS_HANDED_OUT)
}
