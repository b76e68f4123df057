//! One store with everything in it, moved: both show the same, and both go on in the same way.

use std::sync::Arc;

use semel_cluster::Database;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::lease::Delivery;
use semel_core::lifecycle::State;
use semel_core::refusal::Refusal;
use semel_core::settle::{Report, Settle};
use semel_core::time::Millis;
use semel_store::{Command, JobQuery, ManualClock, Reply, Store};
use semel_store_embedded::EmbeddedStore;
use semel_store_postgres::PostgresStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::world::{Actor, START, World, done, draft, embedded, fill, key, keyed, moved, queue};
use crate::harness::{empty_database, options, runtime};

/// The same store twice: where it was, opened again after the move, and where it is now.
struct Twins {
    here: EmbeddedStore,
    there: PostgresStore,
    clock: Arc<ManualClock>,
    world: World,
    _database: Database<'static>,
    _dir: TempDir,
    runtime: Runtime,
}

impl Twins {
    fn new() -> Self {
        let (dir, database) = (tempfile::tempdir().unwrap(), empty_database());
        let (clock, runtime) = (Arc::new(ManualClock::at(START)), runtime());
        let (world, there) = runtime.block_on(async {
            let store = embedded(dir.path(), &clock);
            let world = fill(&store, &clock).await;
            store.close().await.unwrap();
            moved(dir.path(), database.url()).await;
            (world, PostgresStore::open(database.url(), options(&clock)).await.unwrap())
        });
        let here = embedded(dir.path(), &clock);
        Self { here, there, clock, world, _database: database, _dir: dir, runtime }
    }

    /// What both say to the same question, which must be the same.
    #[expect(clippy::needless_pass_by_value, reason = "every question is asked where it stands")]
    fn both<T: PartialEq + std::fmt::Debug>(&self, what: &str, ask: impl AsyncFn(&dyn Store) -> T) -> T {
        let (here, there) = self.runtime.block_on(async { (ask(&self.here).await, ask(&self.there).await) });
        assert_eq!(here, there, "{what}");
        here
    }

    /// Everything there is to see, which must be the same.
    fn look_around(&self) {
        for id in self.both("the ids of all jobs", async |store| ids(&list(store, JobQuery::default()).await))
        {
            self.both("a job", async |store| store.job(id).await.unwrap());
        }
        for state in State::ALL {
            self.both("the jobs in a state", async |store| {
                list(store, JobQuery { state: Some(state), ..JobQuery::default() }).await
            });
        }
        for (queue, key) in &self.world.keys {
            self.both("a key", async |store| store.key(queue, key).await.unwrap());
        }
        let names = self.both("the queues", async |store| store.queues().await.unwrap());
        for record in names {
            self.both("the next job to become due", async |store| {
                store.next_due(&record.name).await.unwrap()
            });
        }
        self.both("the counts", async |store| store.stats().await.unwrap());
        self.both("the schedules", async |store| store.schedules().await.unwrap());
        self.both("the API keys", async |store| store.api_keys().await.unwrap());
        self.both("the replays", async |store| store.replays().await.unwrap());
        self.both("the next lease to run out", async |store| store.next_expiry().await.unwrap());
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        self.there.abandon();
    }
}

async fn list(store: &dyn Store, query: JobQuery) -> Vec<Job> {
    let (mut query, mut jobs) = (JobQuery { limit: 7, ..query }, Vec::new());
    loop {
        let page = store.jobs(query.clone()).await.unwrap();
        jobs.extend(page.items);
        let Some(next) = page.next else { return jobs };
        query.cursor = Some(next);
    }
}

fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

fn settle(delivery: &Delivery) -> Command {
    let Delivery { id, token, .. } = delivery;
    Command::Settle(Settle::new(*id, Some(*token), done(), Report::default()).unwrap())
}

#[test]
fn both_show_the_same() {
    Twins::new().look_around();
}

#[test]
fn the_same_story_goes_on_in_both() {
    let twins = Twins::new();
    for round in 0..12 {
        twins.clock.advance(Millis::from_secs(3600));
        for name in ["orders", "lines", "limits", "gone"] {
            let went_out = twins.both("what goes out", async |store| {
                let actor = Actor { store };
                let out = actor.leases(name, 6).await;
                for delivery in &out {
                    actor.settles(delivery, done()).await;
                }
                out.iter().map(|out| (out.id, out.attempt, out.deferrals, out.probe)).collect::<Vec<_>>()
            });
            assert!(!went_out.is_empty() || round > 0 || name == "gone", "{name}");
        }
        twins.both("what is pruned", async |store| {
            Actor { store }.does(Command::Prune { limit: 1000 }).await;
            ids(&list(store, JobQuery::default()).await)
        });
    }
    twins.look_around();
    let left = twins.both("the jobs", async |store| list(store, JobQuery::default()).await);
    assert!(left.iter().any(|job| job.progress.state == State::Completed), "the story had an end");
}

#[test]
fn a_duplicate_is_answered_with_the_job_that_was_moved() {
    let twins = Twins::new();
    for text in ["completed", "dead", "cancelled", "leased", "late", "priority-3"] {
        let answer = twins.both("the answer to a duplicate", async |store| {
            let answers = store.apply(vec![Command::Publish(keyed("orders", text).check().unwrap())]).await;
            answers.unwrap().remove(0)
        });
        let Ok(Reply::Published(published)) = answer else { panic!("{answer:?}") };
        // The key of a dead letter goes to the next who publishes it: so the queue says.
        assert_eq!(published.deduplicated, text != "dead");
    }
    let (there, world) = (&twins.there, &twins.world);
    twins.runtime.block_on(async {
        let actor = Actor { store: there };
        assert_eq!(actor.publishes(keyed("orders", "completed")).await, world.settled.id);
        assert_ne!(actor.publishes(keyed("orders", "released")).await, JobId::ZERO);
        let stripped = there.key(&queue("brief"), &key("stripped-0")).await.unwrap().unwrap();
        assert!(stripped.holds && stripped.job.spec.payload.is_none());
        assert_eq!(actor.publishes(keyed("brief", "stripped-0")).await, stripped.job.id);
    });
}

#[test]
fn a_dead_letter_can_be_replayed() {
    let twins = Twins::new();
    let dead = twins.world.dead;
    twins.runtime.block_on(async {
        let actor = Actor { store: &twins.there };
        actor.does(Command::Replay(dead)).await;
        let out = actor.leases("orders", 100).await;
        let again = out.iter().find(|delivery| delivery.id == dead).expect("it goes out again");
        actor.settles(again, done()).await;
        let job = twins.there.job(dead).await.unwrap().unwrap();
        assert_eq!((job.progress.state, job.progress.replays), (State::Completed, 1));
        assert_eq!(job.progress.history.len(), 2, "what happened before the move is not forgotten");
    });
}

#[test]
fn a_line_opens_in_the_order_in_which_it_stood() {
    let twins = Twins::new();
    let mut went_out = Vec::new();
    twins.runtime.block_on(async {
        let actor = Actor { store: &twins.there };
        while went_out.len() < twins.world.line.len() {
            let out = actor.leases("lines", 10).await;
            let mine: Vec<_> =
                out.iter().filter(|out| out.spec.group.as_ref().unwrap().as_str() == "a").collect();
            assert_eq!(mine.len(), 1, "one at a time");
            went_out.push(mine[0].id);
            for delivery in &out {
                actor.settles(delivery, done()).await;
            }
        }
    });
    assert_eq!(went_out, twins.world.line);
}

#[test]
fn a_lease_of_the_old_store_is_stale_and_a_settle_of_it_is_known() {
    let twins = Twins::new();
    let Twins { there, world, .. } = &twins;
    twins.runtime.block_on(async {
        let answers = there.apply(vec![settle(&world.leased), settle(&world.settled)]).await.unwrap();
        assert!(
            matches!(
                answers[0],
                Err(Refusal::NotLeased { state: State::Pending, .. } | Refusal::StaleLease(_))
            ),
            "{answers:?}"
        );
        assert!(
            matches!(answers[1], Ok(Reply::Settled { state: State::Completed, repeated: true, .. })),
            "{answers:?}"
        );
        let out = Actor { store: there }.leases("orders", 100).await;
        let again = out.iter().find(|delivery| delivery.id == world.leased.id).expect("it waits again");
        assert!(
            out.iter().all(|delivery| delivery.token > world.leased.token),
            "tokens go on above the old ones"
        );
        let answers = there.apply(vec![settle(&world.leased), settle(again)]).await.unwrap();
        assert!(matches!(answers[0], Err(Refusal::StaleLease(_))), "{answers:?}");
        assert!(answers[1].is_ok(), "{answers:?}");
    });
}

#[test]
fn new_ids_are_above_all_that_were_moved() {
    let twins = Twins::new();
    twins.runtime.block_on(async {
        let newest = list(&twins.there, JobQuery::default()).await[0].id;
        let new = Actor { store: &twins.there }.publishes(draft("orders", "new")).await;
        assert!(new > newest);
        let made = Actor { store: &twins.there };
        made.puts_queue("new", Default::default()).await;
        assert!(made.publishes(keyed("new", "completed")).await > new, "a new queue has keys of its own");
    });
}
