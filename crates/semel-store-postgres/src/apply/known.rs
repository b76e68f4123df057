//! The short way: a batch that this node can decide by what it remembers, in one call.
//!
//! Publishes under new keys, and settles of deliveries that this node handed out. Everything is decided before anything is
//! asked: by the queues as this node remembers them, by the database's clock as it follows it, as if no key were known, and as
//! if nothing had happened to the deliveries since. The one call checks all of that where it counts, and changes nothing if it
//! is not so. Then the batch goes the long way, which asks first.

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
const SLACK: i64 = 1000;

/// How many batches with publishes go the long way after one of them met a key that is known. Who retries publishes does so
/// for a while.
const UNLUCKY: u32 = 16;

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
    fn holds(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    fn runs_out(&self) {
        self.0.store(UNLUCKY, Ordering::Relaxed);
    }
}

/// Applies a batch the short way; nothing if it has to go the long one, and then nothing has happened.
pub(super) async fn apply(
    store: &PostgresStore,
    session: &Session,
    batch: &[Command],
    wants: &Wants,
) -> Result<Option<Vec<Answer>>, Setback> {
    // Behind a pooler time-outs and settings travel with BEGIN, and this call has none.
    let suits = |command: &Command| matches!(command, Command::Publish(_) | Command::Settle(_));
    if !store.options.prepare || !batch.iter().all(suits) {
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
        Err(fault) if is_not_as_handed_out(&fault) => {
            decided.lent.give_back(store);
            Ok(None)
        }
        // The call is a transaction of its own: what is lost of it is lost after its COMMIT, as far as one can tell.
        Err(fault) => Err(Setback::Unclear(fault)),
    }
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

#[cfg(test)]
mod tests {
    use semel_cluster::{Database, sql_at};
    use semel_core::key::Key;
    use semel_core::lease::{Delivery, LeaseRequest};
    use semel_core::lifecycle::State;
    use semel_core::outcome::Outcome;
    use semel_core::payload::Payload;
    use semel_core::publish::{Draft, Published};
    use semel_core::queue::QueueConfig;
    use semel_core::refusal::Refusal;
    use semel_core::settle::{Report, Settle};
    use semel_core::time::Millis;
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

    async fn lease(store: &PostgresStore) -> Delivery {
        let request = LeaseRequest::new(queue(), 1, None).unwrap();
        store.lease(request).await.unwrap().pop().expect("a job is ready")
    }

    fn settle(delivery: &Delivery, outcome: Outcome) -> Command {
        Command::Settle(Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap())
    }

    fn done() -> Outcome {
        Outcome::Done { result: Some(Payload::from_json("[1]").unwrap()), effect: None }
    }

    async fn state(store: &PostgresStore, delivery: &Delivery) -> State {
        store.job(delivery.id).await.unwrap().expect("it is there").progress.state
    }

    #[test]
    fn what_this_node_handed_out_ends_the_short_way_together_with_publishes() {
        with_store(async |store, database| {
            sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
            let delivery = lease(&store).await;
            let batch = vec![settle(&delivery, done()), keyed("second"), settle(&delivery, done())];
            let answers = store.apply(batch).await.unwrap();
            let repeated = |answer: &Answer| match answer {
                Ok(Reply::Settled { state: State::Completed, repeated, .. }) => *repeated,
                other => panic!("a settle was answered {other:?}"),
            };
            assert_eq!((repeated(&answers[0]), repeated(&answers[2])), (false, true));
            let job = store.job(delivery.id).await.unwrap().expect("it is there");
            assert_eq!((job.progress.attempts, job.progress.history.len()), (1, 1));
            assert_eq!(job.progress.result, Some(Payload::from_json("[1]").unwrap()));
            let stats = store.stats().await.unwrap();
            let counts = [State::Pending, State::Completed].map(|state| stats.queues[0].count(state));
            assert_eq!(counts, [1, 1], "all was counted");
        });
    }

    #[test]
    fn a_failure_and_a_job_of_which_more_is_known_go_the_long_way() {
        with_store(async |store, database| {
            let failed = settle(&lease(&store).await, Outcome::Failed { error: "no".into() });
            let answers = store.apply(vec![failed]).await.unwrap();
            assert!(matches!(answers[0], Ok(Reply::Settled { state: State::Pending, .. })), "{answers:?}");
            sql_at(database.url(), &["UPDATE semel.live SET due = 0"]).unwrap();
            let again = lease(&store).await;
            assert!(store.handed_out.take([again.id].iter()).is_none(), "it has a history");
            store.apply(vec![settle(&again, done())]).await.unwrap()[0].clone().unwrap();
            let job = store.job(again.id).await.unwrap().expect("it is there");
            assert_eq!(job.progress.history.len(), 2);
        });
    }

    #[test]
    fn a_key_that_was_released_meanwhile_stays_released() {
        with_store(async |store, _| {
            let delivery = lease(&store).await;
            let key = Key::try_from("first").unwrap();
            let release = Command::ReleaseKey { queue: queue(), key, reason: "a mistake".into() };
            store.apply(vec![release]).await.unwrap()[0].clone().unwrap();
            store.apply(vec![settle(&delivery, done())]).await.unwrap()[0].clone().unwrap();
            let job = store.job(delivery.id).await.unwrap().expect("it is there");
            assert_eq!(job.progress.released.as_deref(), Some("a mistake"));
            assert_eq!(job.progress.state, State::Completed);
        });
    }

    #[test]
    fn a_lease_that_another_took_over_is_stale_and_the_publish_beside_it_is_not() {
        with_store(async |store, database| {
            let delivery = lease(&store).await;
            sql_at(database.url(), &["UPDATE semel.live SET token = token + 1"]).unwrap();
            let answers = store.apply(vec![keyed("second"), settle(&delivery, done())]).await.unwrap();
            assert!(matches!(answers[0], Ok(Reply::Published(_))), "{answers:?}");
            assert!(matches!(answers[1], Err(Refusal::StaleLease { .. })), "{answers:?}");
            assert_eq!(state(&store, &delivery).await, State::Processing);
            let next = lease(&store).await;
            assert_eq!(next.attempt, 1, "the publish is there once, and nothing is left of the first try");
        });
    }

    #[test]
    fn what_a_job_says_for_itself_comes_back() {
        with_store(async |store, database| {
            sql_at(database.url(), &[NO_LONG_WAY]).unwrap();
            let mut draft = draft().with_key(Key::try_from("rich").unwrap());
            draft.priority = 7;
            draft.delay = Some(Millis::from_secs(60));
            draft.metadata = [("tenant".to_owned(), "a".to_owned())].into_iter().collect();
            let batch = vec![Command::Publish(draft.check().unwrap()), keyed("plain")];
            let answers = store.apply(batch).await.unwrap();
            let ids = answers.iter().map(|answer| match answer {
                Ok(Reply::Published(published)) => published.id,
                other => panic!("a publish was answered {other:?}"),
            });
            let [rich, plain] = ids.collect::<Vec<_>>().try_into().expect("there are two");
            let (rich, plain) =
                (store.job(rich).await.unwrap().unwrap(), store.job(plain).await.unwrap().unwrap());
            assert_eq!((rich.spec.priority.get(), plain.spec.priority.get()), (7, 0));
            assert_eq!(rich.spec.run_at, rich.spec.created_at.plus(Millis::from_secs(60)));
            assert_eq!(rich.progress.due, rich.spec.run_at);
            assert_eq!(plain.spec.run_at, plain.spec.created_at);
            assert_eq!((rich.spec.metadata.len(), plain.spec.metadata.len()), (1, 0));
        });
    }
}
