//! Queues: made, changed and deleted. Such a command is a part of its batch on its own, because it may concern every job of
//! the queue.

use semel_core::name::QueueName;
use semel_core::queue::QueueConfig;
use semel_core::refusal::Refusal;
use semel_store::working::{QueueChange, StoredQueue};
use semel_store::{Answer, Command};
use tokio_postgres::types::Type;

use super::load::{self, Loaded};
use super::wants::Wants;
use super::work::Work;
use super::{Setback, save};
use crate::catalog::queue_number;
use crate::flight::Flight;
use crate::locks;
use crate::row::{Cells, config_text, gate_text, is_free, secrets_text, sql_time};
use crate::session::{Param, Sql};

static ADD_QUEUE: Sql = Sql {
    text: "INSERT INTO semel.queue (name, config, gate, secrets, created_at, free, paused)
           VALUES ($1, $2, $3, $4, $5, $6, $7)
           RETURNING id",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8, Type::BOOL, Type::BOOL],
};

static COUNT_UNFINISHED: Sql =
    Sql { text: "SELECT count(*) FROM semel.live WHERE queue = $1", types: &[Type::INT4] };

/// Waits for applications whose own transactions publish to the queue, and keeps others from it.
static KEEP_PUBLISHERS_OUT: Sql =
    Sql { text: "SELECT pg_advisory_xact_lock($1, $2)", types: &[Type::INT4, Type::INT4] };

static DELETE_QUEUE: Sql = Sql {
    text: "UPDATE semel.queue SET deleted = true, secrets = '[]', version = version + 1 WHERE id = $1",
    types: &[Type::INT4],
};

/// Opens everybody who waits in a line of the queue.
static OPEN_ALL: Sql = Sql {
    text: "UPDATE semel.live SET open = true WHERE queue = $1 AND grp IS NOT NULL AND NOT open",
    types: &[Type::INT4],
};

/// Opens the first who wait in each line of the queue, as far as the new limit has room.
static OPEN_TO_LIMIT: Sql = Sql {
    text: "WITH opened AS (
               SELECT grp, count(*) AS open
                 FROM semel.live
                WHERE queue = $1 AND grp IS NOT NULL AND open
                GROUP BY grp
           ),
           waiting AS (
               SELECT id, grp, row_number() OVER (PARTITION BY grp ORDER BY joined, id) AS place
                 FROM semel.live
                WHERE queue = $1 AND grp IS NOT NULL AND NOT open
           )
           UPDATE semel.live l
              SET open = true
             FROM waiting w
             LEFT JOIN opened o ON o.grp = w.grp
            WHERE l.id = w.id AND coalesce(o.open, 0) + w.place <= $2",
    types: &[Type::INT4, Type::INT8],
};

/// Has the finished jobs looked at again, from the first to the newest. The place where the pruning stands is locked first,
/// as the pruning itself does.
static START_OVER: Sql = Sql {
    text: "INSERT INTO semel.meta (name, value) VALUES ('swept', 0)
               ON CONFLICT (name) DO UPDATE SET value = 0",
    types: &[],
};

static SWEEP_QUEUE: Sql = Sql {
    text: "UPDATE semel.queue SET sweep_to = (SELECT max(id) FROM semel.done) WHERE id = $1",
    types: &[Type::INT4],
};

/// Makes or changes a queue.
pub(super) async fn put(
    work: &mut Work<'_>,
    command: &[Command],
    last: bool,
) -> Result<Vec<Answer>, Setback> {
    let mut loaded = load::load(work, &Wants::of(command)).await?;
    let answers = work.decide(&mut loaded, command);
    let Loaded { set, rules, .. } = loaded;
    let changes = set.changes();
    match changes.queues.as_slice() {
        [QueueChange { name, before: None, after: Some(new) }] => make(work, name, new, last).await?,
        [QueueChange { before: Some(old), after: Some(new), .. }] => {
            let writes = save::writes(&changes, &rules, &answers, work.now());
            let change = Change::between(old, new);
            let (mut flight, _) = work.flight();
            change.start_sweep(&mut flight);
            writes.add_to(&mut flight);
            change.open_lines(&mut flight);
            work.send(flight, last).await?;
            work.opens(queue_number(new.id));
        }
        _ => nothing(work, last).await?,
    }
    Ok(answers)
}

/// Deletes a queue that has no unfinished job.
pub(super) async fn delete(
    work: &mut Work<'_>,
    name: &QueueName,
    command: &[Command],
    last: bool,
) -> Result<Answer, Setback> {
    let mut loaded = load::load(work, &Wants::of(command)).await?;
    let number = work.names.get(name).copied();
    if let Some(number) = number {
        let unfinished = count_unfinished(work, number).await?;
        if unfinished > 0 {
            nothing(work, last).await?;
            return Ok(Err(Refusal::QueueNotEmpty { queue: name.clone(), unfinished }));
        }
    }
    let answer = work.decide(&mut loaded, command).remove(0);
    match number.filter(|_| answer.is_ok()) {
        Some(number) => {
            let (mut flight, _) = work.flight();
            sweep(&mut flight, &number);
            flight.query(&DELETE_QUEUE, vec![&number]);
            work.send(flight, last).await?;
            work.names.remove(name);
            work.store.catalog.forget(name);
        }
        None => nothing(work, last).await?,
    }
    Ok(answer)
}

async fn count_unfinished(work: &Work<'_>, number: i32) -> Result<u64, Setback> {
    work.session.query(&KEEP_PUBLISHERS_OUT, &[&locks::PUBLISH, &number]).await?;
    let row = work.session.query_one(&COUNT_UNFINISHED, &[&number]).await?;
    let count: i64 = Cells::of(&row).take()?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Nothing is to be written; but the transaction may have to end.
async fn nothing(work: &Work<'_>, last: bool) -> Result<(), Setback> {
    let (flight, _) = work.flight();
    work.send(flight, last).await.map(drop)
}

async fn make(work: &mut Work<'_>, name: &QueueName, new: &StoredQueue, last: bool) -> Result<(), Setback> {
    let config = &new.rules.config;
    let (config_text, gate, secrets) =
        (config_text(config), gate_text(&new.gate), secrets_text(&new.secrets));
    let (text, created_at) = (name.as_str(), sql_time(new.created_at));
    let (free, paused) = (is_free(config, &new.gate), new.gate.paused);
    let (mut flight, _) = work.flight();
    let params: Vec<Param<'_>> = vec![&text, &config_text, &gate, &secrets, &created_at, &free, &paused];
    let added = flight.query(&ADD_QUEUE, params);
    let landed = work.send(flight, last).await?;
    for row in landed.rows(added) {
        let number = Cells::of(row).take()?;
        work.names.insert(name.clone(), number);
        work.made.push(number);
        work.store.catalog.learn(name.clone(), number);
    }
    Ok(())
}

/// What a change of a queue's settings brings about besides.
struct Change {
    queue: i32,
    /// The limit of its groups, if there is more room than before.
    opens: Option<Option<i64>>,
    /// Whether finished jobs may have to go earlier than was thought when they finished.
    shortens: bool,
}

impl Change {
    fn between(old: &StoredQueue, new: &StoredQueue) -> Self {
        let (before, after) = (&old.rules.config, &new.rules.config);
        let room = |config: &QueueConfig| config.group_concurrency.unwrap_or(u32::MAX);
        let limit = after.group_concurrency.map(i64::from);
        Self {
            queue: queue_number(new.id),
            opens: (room(after) > room(before)).then_some(limit),
            shortens: shortens(before, after),
        }
    }

    fn start_sweep<'a>(&'a self, flight: &mut Flight<'a>) {
        if self.shortens {
            sweep(flight, &self.queue);
        }
    }

    fn open_lines<'a>(&'a self, flight: &mut Flight<'a>) {
        if let Some(limit) = &self.opens {
            match limit {
                Some(limit) => flight.query(&OPEN_TO_LIMIT, vec![&self.queue, limit]),
                None => flight.query(&OPEN_ALL, vec![&self.queue]),
            };
        }
    }
}

fn sweep<'a>(flight: &mut Flight<'a>, queue: &'a i32) {
    flight.query(&START_OVER, vec![]);
    flight.query(&SWEEP_QUEUE, vec![queue]);
}

/// Whether a finished job may have to go earlier. One that may stay longer is found out when it is looked at.
fn shortens(before: &QueueConfig, after: &QueueConfig) -> bool {
    let (old, new) = (&before.retention, &after.retention);
    new.completed < old.completed
        || new.dead < old.dead
        || after.window < before.window
        || (old.archive && !new.archive)
}
