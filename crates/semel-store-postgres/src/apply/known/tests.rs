//! Which batches with settles, or with publishes that are not plain, go the short way, and that nothing is left of those that do
//! not.

use semel_cluster::sql_at;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::refusal::Refusal;
use semel_core::settle::{Report, Settle};
use semel_core::time::Millis;
use semel_store::{Reply, Store};

use super::*;
use crate::apply::scene::{NO_LONG_WAY, draft, keyed, queue, with_store};
use crate::options::Options;
use crate::scratch;

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

/// One job is leased when the table is looked at for the planner, and twenty thousand are when deliveries end.
const MANY_LEASED: [&str; 2] = [
    "INSERT INTO semel.queue (name, config, gate, secrets, created_at, free) VALUES ('q', '', '', '', 0, true);
     INSERT INTO semel.live (id, queue, rank, due, open, joined, attempts, deferrals, token, deadline)
     SELECT n, 1, 0, n, true, 0, 0, 0, CASE n WHEN 1 THEN 1 END, CASE n WHEN 1 THEN 1 END FROM generate_series(1, 20000) n;
     VACUUM ANALYZE semel.live",
    "UPDATE semel.live SET token = id, deadline = id WHERE id > 1",
];

/// Ends some deliveries, completed.
fn end(ids: &[i64]) -> String {
    let of = |value: &str| format!("array_fill({value}, ARRAY[{}])", ids.len());
    let (queues, states, zeros, times) = (of("1"), of("3::smallint"), of("0"), of("0::bigint"));
    let stories = of("NULL::text");
    format!(
        "SELECT semel.apply_known(
            queues => '{{1}}', versions => ARRAY(SELECT version FROM semel.queue WHERE id = 1), decided => 0, slack => NULL,
            key_queues => '{{}}', keys => '{{}}', key_ids => '{{}}', ids => '{{}}', job_queues => '{{}}', job_keys => '{{}}',
            fingerprints => '{{}}', payloads => '{{}}', due => '{{}}', priorities => NULL, groups => '{{}}',
            metadata => '{{}}', overrides => '{{}}', ended => ARRAY{ids:?}::bigint[], tokens => ARRAY{ids:?}::bigint[],
            end_queues => {queues}, states => {states}, end_due => {times}, attempts => {zeros}, deferrals => {zeros},
            stories => {stories}, look_at => {times}, tally_queues => '{{}}', unfinished => '{{}}', completed => '{{}}',
            dead => '{{}}', cancelled => '{{}}')"
    )
}

/// To find a row by its id takes three pages or four of the primary key, and a handful more to delete it and to put one down. The index
/// of twenty thousand leased jobs has some sixty pages.
#[test]
fn a_delivery_that_ends_is_found_by_its_id_whatever_the_planner_knows() {
    let database = scratch::database();
    scratch::runtime().block_on(async {
        let store = PostgresStore::open(database.url(), Options::default()).await.unwrap();
        let session = store.pool.session().await.unwrap();
        for part in MANY_LEASED[0].split(';') {
            session.script(part).await.unwrap();
        }
        scratch::pages(&session, &end(&[1])).await;
        session.script(MANY_LEASED[1]).await.unwrap();
        let ids: Vec<i64> = (1001..1051).collect();
        let pages = scratch::pages(&session, &end(&ids)).await;
        let left =
            session.query_text("SELECT count(*) FROM semel.live WHERE id BETWEEN 1001 AND 1050", &[]).await;
        assert_eq!(left.unwrap()[0].get::<_, i64>(0), 0, "they ended");
        assert!(pages < 30 * 50, "{pages} pages for 50 deliveries");
        drop(session);
        store.abandon();
    });
}
