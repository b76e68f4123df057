//! The shortest way: a batch of nothing but plain publishes to one queue, each under a key of its own or under none.
//!
//! Such a publish makes a job, or is refused for what it is; what others of the batch do does not matter to it. So it is decided
//! where it stands, and not in a working set, which would cost the node about as much as the rest of the batch. The assumptions
//! are those of the short way (`known`), and so is what happens if they do not hold: nothing, and the batch goes the long way.

#[cfg(test)]
mod tests;

use semel_core::gate::Gate;
use semel_core::ids::{IdGenerator, JobId};
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::publish::{self, Draft, Publish};
use semel_core::queue::Rules;
use semel_core::time::Timestamp;
use semel_store::{Answer, Command, Reply};
use tokio_postgres::types::Type;

use super::Setback;
use super::known::{self, SLACK};
use super::lent::Lent;
use crate::catalog::Seen;
use crate::fault::Fault;
use crate::row::{Cells, Digest, Text, is_free, sql_id, sql_time};
use crate::session::{Session, Sql};
use crate::store::PostgresStore;

static ADD_PLAIN: Sql = Sql {
    text: "SELECT semel.add_plain($1, $2, $3, $4, $5, $6, $7, $8)",
    types: &[
        // What it was decided by.
        Type::INT4,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        // New jobs.
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

/// Publishes that can go the shortest way.
pub(super) struct Plain<'a> {
    queue: &'a QueueName,
    publishes: Vec<&'a Publish>,
    /// Their places, in the order of their keys. Everybody takes keys in this order: one that somebody else is publishing is
    /// waited for, and two that wait for each other would wait until one is given up.
    by_key: Vec<usize>,
}

impl<'a> Plain<'a> {
    /// The batch, if it is nothing but such publishes.
    pub(super) fn of(batch: &'a [Command]) -> Option<Self> {
        let publish = |command: &'a Command| match command {
            Command::Publish(publish) => Some(publish).filter(|publish| is_plain(publish.draft())),
            _ => None,
        };
        let publishes: Vec<_> = batch.iter().map(publish).collect::<Option<_>>()?;
        let queue = &publishes.first()?.draft().queue;
        let key = |place: &usize| publishes[*place].draft().key.as_ref();
        let mut by_key: Vec<usize> = (0..publishes.len()).collect();
        by_key.sort_unstable_by_key(key);
        let meets = |pair: &[usize]| key(&pair[0]).is_some() && key(&pair[0]) == key(&pair[1]);
        let apart =
            publishes.iter().all(|publish| publish.draft().queue == *queue) && !by_key.windows(2).any(meets);
        apart.then_some(Self { queue, publishes, by_key })
    }

    /// Applies the batch; nothing if it has to go the long way, and then nothing has happened.
    pub(super) async fn apply(
        self,
        store: &PostgresStore,
        session: &Session,
    ) -> Result<Option<Vec<Answer>>, Setback> {
        if !store.luck.holds() {
            return Ok(None);
        }
        let seen = store.catalog.last_seen(self.queue);
        // Something that limits the queue makes its state count.
        let Some(seen) = seen.filter(|seen| is_free(&seen.rules.config, &Gate::default())) else {
            return Ok(None);
        };
        let now = store.clock.expected();
        let (jobs, lent) = Lent::make(store, |ids| Jobs::decide(&self, &seen.rules, ids, now));
        let slack = store.clock.instead().is_none().then_some(SLACK);
        let sent = jobs.send(session, &seen, now, slack).await;
        let applied = known::heard(store, sent, lent, [self.queue])?;
        if applied {
            store.marks.appeared(seen.id, sql_time(now), store.clock.now());
        }
        Ok(applied.then_some(jobs.answers))
    }
}

/// Whether a publish is due at once and says nothing for itself. All that it may say is named, so that whoever adds to it has to
/// decide here.
fn is_plain(draft: &Draft) -> bool {
    let Draft {
        queue: _,
        payload: _,
        key: _,
        delay,
        run_at,
        priority,
        group,
        overrides,
        metadata,
        publisher: _,
    } = draft;
    delay.is_none()
        && run_at.is_none()
        && *priority == 0
        && group.is_none()
        && overrides.is_empty()
        && metadata.is_empty()
}

/// What became of the publishes: an answer to each, and the jobs that were made, a column each, in the order of their keys.
struct Jobs<'a> {
    answers: Vec<Answer>,
    ids: Vec<i64>,
    keys: Vec<Option<&'a str>>,
    fingerprints: Vec<Digest>,
    payloads: Vec<Text>,
}

impl<'a> Jobs<'a> {
    /// Decides as if no key were known.
    fn decide(plain: &Plain<'a>, rules: &Rules, ids: &mut IdGenerator, now: Timestamp) -> Self {
        let decide = |publish: &&Publish| {
            publish::admit(rules, publish, now)?;
            Ok(Reply::Published(publish::made(ids.next(now), now)))
        };
        let count = plain.publishes.len();
        let mut jobs = Self {
            answers: plain.publishes.iter().map(decide).collect(),
            ids: Vec::with_capacity(count),
            keys: Vec::with_capacity(count),
            fingerprints: Vec::with_capacity(count),
            payloads: Vec::with_capacity(count),
        };
        for place in &plain.by_key {
            if let Ok(Reply::Published(made)) = &jobs.answers[*place] {
                jobs.push(made.id, plain.publishes[*place]);
            }
        }
        jobs
    }

    fn push(&mut self, id: JobId, publish: &'a Publish) {
        let draft = publish.draft();
        self.ids.push(sql_id(id));
        self.keys.push(draft.key.as_ref().map(Key::as_str));
        self.fingerprints.push(Digest::of(publish.fingerprint()));
        self.payloads.push(Text::of(&draft.payload));
    }

    /// Makes the call. The database's time if all was as it was thought to be.
    async fn send(
        &self,
        session: &Session,
        seen: &Seen,
        now: Timestamp,
        slack: Option<i64>,
    ) -> Result<Option<i64>, Fault> {
        let Self { ids, keys, fingerprints, payloads, .. } = self;
        let row = session
            .query_one(
                &ADD_PLAIN,
                &[&seen.id, &seen.version, &sql_time(now), &slack, ids, keys, fingerprints, payloads],
            )
            .await?;
        Cells::of(&row).take()
    }
}
