//! What the others need not be told: that there is more in a queue whose jobs nobody takes.
//!
//! Whoever waits for a queue takes what is ready in it. So a job that has been ready for a while tells that nobody waits, and a
//! notification for the next one would wake every node for nothing: with several nodes that publish, some hundred times a
//! second. A queue is looked at now and then, after it was told of; the others are told less often until the next look.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use semel_core::name::QueueName;
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::fault::Fault;
use crate::row::{Cells, sql_time};
use crate::session::{Session, Sql};
use crate::store::PostgresStore;

/// How many milliseconds a job has to be ready to tell that nobody waits for it: many times what a notification takes.
const LONG: i64 = 1000;

/// How long what was seen holds. Whoever begins to wait for a queue that was found full, and finds that it is empty by then, may
/// wait this much longer for the next job.
const HOLDS: Duration = Duration::from_millis(200);

/// Which of these queues have a job that has been ready since then. Where something limits a queue, jobs may be ready for long
/// although somebody waits. (LIMIT and not EXISTS, as in `sweep`.)
static STANDING: Sql = Sql {
    text: "SELECT q.name
             FROM semel.queue q
            CROSS JOIN LATERAL (SELECT
                                  FROM semel.live l
                                 WHERE l.queue = q.id AND l.rank = 0 AND l.token IS NULL AND l.open AND l.due <= $2
                                 LIMIT 1) first
            WHERE q.name = ANY ($1) AND q.free AND NOT q.deleted AND NOT q.paused",
    types: &[Type::TEXT_ARRAY, Type::INT8],
};

/// What one node has seen.
#[derive(Debug, Default)]
pub(crate) struct Hush(Mutex<HashMap<QueueName, Look>>);

/// A look at a queue.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    /// Whether its jobs were standing there.
    standing: bool,
}

impl Hush {
    fn looks(&self) -> MutexGuard<'_, HashMap<QueueName, Look>> {
        self.0.lock().expect("the lock is never held across a panic")
    }

    /// Takes out the queues that need not be told of now.
    pub(super) fn silence(&self, ready: &mut BTreeMap<QueueName, u32>) {
        let looks = self.looks();
        let is_standing = |look: &Look| look.standing && look.at.elapsed() < HOLDS;
        ready.retain(|queue, _| !looks.get(queue).is_some_and(is_standing));
    }

    /// Those of the queues that it is time to look at.
    fn due<'a>(&self, told: impl Iterator<Item = &'a QueueName>) -> Vec<&'a str> {
        let mut looks = self.looks();
        looks.retain(|_, look| look.at.elapsed() < HOLDS);
        told.filter(|queue| !looks.contains_key(*queue)).map(QueueName::as_str).collect()
    }
}

impl PostgresStore {
    /// Looks at queues that the others have just been told of, if it is time to.
    pub(super) async fn look_at_told(
        &self,
        session: &Session,
        told: &BTreeMap<QueueName, u32>,
    ) -> Result<(), Fault> {
        let names = self.hush.due(told.keys());
        if names.is_empty() {
            return Ok(());
        }
        let since = sql_time(self.clock.now()).saturating_sub(LONG);
        let rows = session.query(&STANDING, &[&names, &since]).await?;
        let standing: Vec<&str> = rows.iter().map(|row| Cells::of(row).take()).collect::<Result<_, _>>()?;
        let at = Instant::now();
        let looked = told.keys().filter(|queue| names.contains(&queue.as_str()));
        let look = |queue: &QueueName| Look { at, standing: standing.contains(&queue.as_str()) };
        self.hush.looks().extend(looked.map(|queue| (queue.clone(), look(queue))));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(queue: &str) -> QueueName {
        QueueName::try_from(queue).unwrap()
    }

    fn told(queues: [&str; 2]) -> BTreeMap<QueueName, u32> {
        queues.into_iter().map(|queue| (name(queue), 1)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_holds_for_a_while() {
        let hush = Hush::default();
        assert_eq!(hush.due(told(["full", "taken"]).keys()), ["full", "taken"]);
        for (queue, standing) in [("full", true), ("taken", false)] {
            hush.looks().insert(name(queue), Look { at: Instant::now(), standing });
        }
        let mut ready = told(["full", "taken"]);
        hush.silence(&mut ready);
        assert_eq!(ready.keys().map(QueueName::as_str).collect::<Vec<_>>(), ["taken"]);
        assert!(hush.due(told(["full", "taken"]).keys()).is_empty(), "they were just looked at");
        tokio::time::advance(HOLDS).await;
        let mut ready = told(["full", "taken"]);
        hush.silence(&mut ready);
        assert_eq!(ready.len(), 2, "the others are told again, whatever was seen");
        assert_eq!(hush.due(ready.keys()), ["full", "taken"]);
        assert!(hush.looks().is_empty(), "queues that nobody speaks of are forgotten");
    }
}
