//! The short way: a batch of nothing but publishes under new keys, in one call.
//!
//! Everything is decided before anything is asked: by the queues as this node remembers them, by the database's clock as it
//! follows it, and as if no key were known. The one call checks all of that where it counts, and changes nothing if it is not
//! so. Then the batch goes the long way, which asks first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::gate::Gate;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::working::{StoredQueue, WorkingSet};
use semel_store::{Answer, Command};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::lent::Lent;
use super::wants::Wants;
use super::writes::Writes;
use super::{Setback, save};
use crate::catalog::{Seen, queue_id};
use crate::fault::Fault;
use crate::row::{Cells, is_free, sql_time};
use crate::session::{Param, Session, Sql};
use crate::store::PostgresStore;

/// How far the time that was decided by may be from the database's, in milliseconds: more than a call takes, and less than
/// anybody notices of a job's age.
const SLACK: i64 = 1000;

/// How many batches go the long way after one of them met a key that is known. Who retries publishes does so for a while.
const UNLUCKY: u32 = 16;

static ADD_FRESH: Sql = Sql {
    text: "SELECT semel.add_fresh($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
                                  $20, $21)",
    types: &[
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8,
        Type::INT8,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BOOL_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
    ],
};

/// Whether new keys are to be expected: how many batches must still go the long way.
#[derive(Debug, Default)]
pub(crate) struct Luck(AtomicU32);

impl Luck {
    fn holds(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    fn runs_out(&self) {
        self.0.store(UNLUCKY, Ordering::Relaxed);
    }
}

/// Publishes a batch the short way; nothing if it has to go the long one, and then nothing has happened.
pub(super) async fn publish(
    store: &PostgresStore,
    session: &Session,
    batch: &[Command],
    wants: &Wants,
) -> Result<Option<Vec<Answer>>, Setback> {
    // Behind a pooler time-outs and settings travel with BEGIN, and this call has none.
    let publishes = batch.iter().all(|command| matches!(command, Command::Publish(_)));
    if !publishes || !store.options.prepare || !store.luck.holds() {
        return Ok(None);
    }
    let Some(queues) = known_queues(store, wants) else { return Ok(None) };
    let decided = Decided::by_memory(store, batch, wants, &queues);
    if !decided.writes.are_fresh() {
        decided.lent.give_back(store);
        return Ok(None);
    }
    match decided.send(session, &queues, store.clock.instead().is_none().then_some(SLACK)).await {
        Ok(Some(now)) => {
            store.clock.decides(now);
            Ok(Some(decided.answers))
        }
        Ok(None) => {
            decided.lent.give_back(store);
            queues.iter().for_each(|(name, _)| store.catalog.forget(name));
            Ok(None)
        }
        Err(fault) if is_known_key(&fault) => {
            decided.lent.give_back(store);
            store.luck.runs_out();
            Ok(None)
        }
        // The call is a transaction of its own: what is lost of it is lost after its COMMIT, as far as one can tell.
        Err(fault) => Err(Setback::Unclear(fault)),
    }
}

/// The queues as this node remembers them, in the order in which they are locked; nothing if one is not known, or if
/// something limits it, so that its state counts.
fn known_queues(store: &PostgresStore, wants: &Wants) -> Option<Vec<(QueueName, Seen)>> {
    let known = |name: &QueueName| {
        let seen = store.catalog.last_seen(name)?;
        is_free(&seen.rules.config, &Gate::default()).then(|| (name.clone(), seen))
    };
    let mut queues: Vec<_> = wants.queues.iter().map(known).collect::<Option<_>>()?;
    queues.sort_by_key(|(_, seen)| seen.id);
    Some(queues)
}

/// A batch that was decided by what this node remembers.
struct Decided {
    answers: Vec<Answer>,
    writes: Writes,
    now: Timestamp,
    lent: Lent,
}

impl Decided {
    fn by_memory(
        store: &PostgresStore,
        batch: &[Command],
        wants: &Wants,
        queues: &[(QueueName, Seen)],
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
        let (answers, lent) = Lent::decide(store, &mut set, batch, None, now);
        let writes = save::writes(&set.changes(), &rules, &answers, now);
        Self { answers, writes, now, lent }
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
        let mut params: Vec<Param<'_>> = vec![&numbers, &versions, &now, &slack];
        params.extend(self.writes.new_keys.params());
        params.extend(self.writes.jobs.params());
        params.extend([&self.writes.tallies.queue as Param<'_>, &self.writes.tallies.unfinished]);
        Cells::of(&session.query_one(&ADD_FRESH, &params).await?).take()
    }
}

/// A queue that nothing limits. What publishing does not ask for need not be known.
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

#[cfg(test)]
mod tests {
    use semel_cluster::{Database, sql_at};
    use semel_core::key::Key;
    use semel_core::payload::Payload;
    use semel_core::publish::{Draft, Published};
    use semel_core::queue::QueueConfig;
    use semel_core::refusal::Refusal;
    use semel_store::{Reply, Store};

    use super::*;
    use crate::options::Options;
    use crate::scratch;

    const NO_LONG_WAY: &str = "DROP FUNCTION semel.lock_queues";

    /// Runs a test against a store with one queue that it has published to.
    fn with_store<F: Future<Output = ()>>(test: impl FnOnce(Arc<PostgresStore>, Database<'static>) -> F) {
        let (database, runtime) = (scratch::database(), scratch::runtime());
        runtime.block_on(async {
            let store = Arc::new(open(&database).await);
            put_queue(&store, QueueConfig::default()).await;
            publish(&store, "first").await.unwrap();
            test(Arc::clone(&store), database).await;
            store.abandon();
        });
    }

    async fn open(database: &Database<'_>) -> PostgresStore {
        PostgresStore::open(database.url(), Options::default()).await.unwrap()
    }

    async fn put_queue(store: &PostgresStore, config: QueueConfig) {
        let command = Command::PutQueue { name: queue(), config: Box::new(config) };
        assert_eq!(store.apply(vec![command]).await.unwrap(), [Ok(Reply::Done)]);
    }

    fn queue() -> QueueName {
        QueueName::try_from("orders").unwrap()
    }

    fn draft() -> Draft {
        Draft::new(queue(), Payload::from_json("1").unwrap())
    }

    fn keyed(key: &str) -> Command {
        Command::Publish(draft().with_key(Key::try_from(key).unwrap()).check().unwrap())
    }

    async fn publish(store: &PostgresStore, key: &str) -> Result<Published, Refusal> {
        match store.apply(vec![keyed(key)]).await.unwrap().remove(0)? {
            Reply::Published(published) => Ok(published),
            other => panic!("a publish was answered {other:?}"),
        }
    }

    #[test]
    fn new_keys_of_a_known_queue_go_the_short_way() {
        with_store(async |store, database| {
            sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
            let made = publish(&store, "second").await.unwrap();
            assert!(!made.deduplicated);
            let job = store.job(made.id).await.unwrap().expect("it is there");
            assert_eq!(job.spec.key, Some(Key::try_from("second").unwrap()));
            let stats = store.stats().await.unwrap();
            assert_eq!(stats.queues[0].count(semel_core::lifecycle::State::Pending), 2, "it was counted");
        });
    }

    #[test]
    fn a_key_that_is_known_goes_the_long_way_and_those_after_it_for_a_while() {
        with_store(async |store, database| {
            assert!(publish(&store, "first").await.unwrap().deduplicated);
            for left in (0..UNLUCKY).rev() {
                publish(&store, &left.to_string()).await.unwrap();
                assert_eq!(left, store.luck.0.load(Ordering::Relaxed));
            }
            sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
            publish(&store, "second").await.expect("the short way is tried again");
        });
    }

    #[test]
    fn a_key_that_comes_twice_in_a_batch_has_one_job() {
        with_store(async |store, _| {
            let answers = store.apply(vec![keyed("twin"), keyed("twin")]).await.unwrap();
            let [Ok(Reply::Published(one)), Ok(Reply::Published(other))] = answers.as_slice() else {
                panic!("{answers:?}")
            };
            assert_eq!((one.id, one.deduplicated, other.deduplicated), (other.id, false, true));
        });
    }

    #[test]
    fn settings_that_another_node_changed_count_at_once() {
        with_store(async |store, database| {
            let other = open(&database).await;
            put_queue(&other, QueueConfig { require_key: true, ..QueueConfig::default() }).await;
            let keyless = Command::Publish(draft().check().unwrap());
            let answers = store.apply(vec![keyless]).await.unwrap();
            assert_eq!(answers, [Err(Refusal::KeyRequired(queue()))]);
            other.abandon();
        });
    }

    #[test]
    fn a_queue_that_another_node_deleted_is_gone() {
        with_store(async |store, database| {
            let other = open(&database).await;
            sql_at(database.url(), &["DELETE FROM semel.live"]).unwrap();
            let answers = other.apply(vec![Command::DeleteQueue(queue())]).await.unwrap();
            assert_eq!(answers, [Ok(Reply::Done)]);
            assert!(matches!(publish(&store, "second").await, Err(Refusal::QueueNotFound(_))));
            other.abandon();
        });
    }

    #[test]
    fn a_clock_that_lost_the_database_does_not_decide() {
        with_store(async |store, database| {
            let told = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
            let now: i64 = sql_at(database.url(), &[told]).unwrap().parse().unwrap();
            store.clock.decides(now + 3_600_000);
            let made = publish(&store, "second").await.unwrap();
            assert!(sql_time(made.created_at) < now + 60_000, "{made:?}");
            sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
            publish(&store, "third").await.expect("it was set right");
        });
    }
}
