//! Workers in processes of their own, which are killed, frozen past their lease, and asked to end. The server's time is the
//! test's, so nobody waits for a lease to run out.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use semel_client::http::AttemptStatus;
use semel_client::ledger::Once;
use semel_client::worker::Worker;
use semel_client::{Effect, Handler, Publish, State};
use semel_cluster::twin::{self, Twin};
use semel_ledger::sqlite::Sqlite;
use semel_ledger::{Call, Ledger};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::world::World;

const LEASE: Duration = Duration::from_secs(1);

/// Longer than a test takes.
const GRACE: Duration = Duration::from_secs(60);

/// Where a worker stands still until it is let on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Stop {
    /// The handler has begun.
    Begun,
    /// The charge is written, and not committed.
    Charged,
    /// Everything is done but settling.
    Done,
}

/// What a worker's process is told.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    server: SocketAddr,
    shop: PathBuf,
    stop: Option<Stop>,
    grace: Duration,
}

/// A server with one job, and a shop whose database also has the ledger.
struct Scene {
    world: World,
    home: TempDir,
    job: String,
}

impl Scene {
    async fn open() -> Self {
        let (world, home) = (World::start().await, tempfile::tempdir().unwrap());
        world.impatient_queue("q").await;
        let job = publish(&world, 17).await;
        let scene = Self { world, home, job };
        let create = "CREATE TABLE charge (id INTEGER PRIMARY KEY, key TEXT NOT NULL)";
        Connection::open(scene.shop()).unwrap().execute_batch(create).unwrap();
        ledger(&scene.shop()).ensure_schema().await.unwrap();
        scene
    }

    fn shop(&self) -> PathBuf {
        self.home.path().join("shop.db")
    }

    fn charges(&self) -> u32 {
        let shop = Connection::open(self.shop()).unwrap();
        shop.query_row("SELECT count(*) FROM charge", [], |row| row.get(0)).unwrap()
    }

    fn start(&self, stop: Option<Stop>, grace: Duration) -> Twin {
        let orders = Orders { server: self.world.address, shop: self.shop(), stop, grace };
        Twin::start("processes::worker", &serde_json::to_string(&orders).unwrap()).unwrap()
    }

    /// A worker that works.
    fn worker(&self) -> Twin {
        self.start(None, GRACE)
    }

    /// A worker that has come to this place with the job.
    fn worker_at(&self, stop: Stop, grace: Duration) -> Twin {
        let worker = self.start(Some(stop), grace);
        assert_eq!(worker.word().unwrap(), format!("at {stop:?}"));
        worker
    }

    /// The job's lease runs out, and another worker does it.
    async fn taken_over(&self) -> semel_client::http::Job {
        let second = self.worker();
        self.world.advance(2 * LEASE);
        let done = self.world.until(&self.job, State::Completed).await;
        assert_eq!(ended(second), "done 1, deferred 0, lost 0");
        done
    }
}

async fn publish(world: &World, order: u32) -> String {
    let wish = Publish::new("q", &order).unwrap().key(format!("order-{order}"));
    world.client().publish(&wish).await.unwrap().id
}

fn ledger(shop: &Path) -> Ledger<Sqlite> {
    Ledger::builder(Sqlite::open(shop).unwrap(), "billing").build().unwrap()
}

/// Asks a worker to end, and says what it did.
fn ended(worker: Twin) -> String {
    worker.ask_to_end().unwrap();
    assert_eq!(worker.word().unwrap(), "ending");
    tally(worker)
}

/// Waits for the end of a worker that was asked to, and says what it did.
fn tally(worker: Twin) -> String {
    let tally = worker.word().unwrap();
    assert!(worker.ended().unwrap().success());
    tally
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_worker_is_killed_is_done_by_another_and_charged_once() {
    for (stop, effect) in
        [(Stop::Begun, Effect::Applied), (Stop::Charged, Effect::Applied), (Stop::Done, Effect::Replayed)]
    {
        let scene = Scene::open().await;
        scene.worker_at(stop, GRACE).kill().unwrap();
        let done = scene.taken_over().await;
        assert_eq!((done.attempts, done.history[0].status), (2, AttemptStatus::Expired), "{stop:?}");
        assert_eq!(done.effect.as_ref().unwrap().outcome, effect, "{stop:?}");
        assert_eq!((done.result::<u32>().unwrap(), scene.charges()), (Some(1), 1), "{stop:?}");
        scene.world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_frozen_past_its_lease_settles_nothing() {
    for (stop, effect) in [(Stop::Begun, Effect::Applied), (Stop::Done, Effect::Replayed)] {
        let scene = Scene::open().await;
        let mut first = scene.worker_at(stop, GRACE);
        first.freeze().unwrap();
        first.go_on().unwrap();
        let done = scene.taken_over().await;
        assert_eq!(done.effect.as_ref().unwrap().outcome, effect, "{stop:?}");
        first.thaw().unwrap();
        // It hears that the delivery is somebody else's, from a heartbeat or when it settles.
        assert_eq!(ended(first), "done 0, deferred 0, lost 1", "{stop:?}");
        let after = scene.world.client().job(&scene.job).await.unwrap();
        assert_eq!((after.state, after.attempts, after.history.len()), (State::Completed, 2, 2), "{stop:?}");
        assert_eq!((after.effect, scene.charges()), (done.effect, 1), "{stop:?}");
        scene.world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_end_finishes_what_it_has_and_takes_nothing_more() {
    let scene = Scene::open().await;
    let mut worker = scene.worker_at(Stop::Begun, GRACE);
    let next = publish(&scene.world, 18).await;
    worker.ask_to_end().unwrap();
    assert_eq!(worker.word().unwrap(), "ending");
    worker.go_on().unwrap();
    assert_eq!(tally(worker), "done 1, deferred 0, lost 0");
    let client = scene.world.client();
    assert_eq!(client.job(&scene.job).await.unwrap().state, State::Completed);
    let left = client.job(&next).await.unwrap();
    assert_eq!((left.state, left.attempts, scene.charges()), (State::Pending, 0, 1));
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_end_puts_back_what_it_cannot_finish() {
    let scene = Scene::open().await;
    let worker = scene.worker_at(Stop::Begun, Duration::ZERO);
    assert_eq!(ended(worker), "done 0, deferred 1, lost 0");
    let left = scene.world.client().job(&scene.job).await.unwrap();
    assert_eq!((left.state, left.attempts, left.defer_count), (State::Pending, 0, 1));
    assert_eq!(scene.charges(), 0);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process of its own, which other tests start"]
async fn worker() {
    let Some(orders) = twin::orders() else { return };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    let mut asked = signal(SignalKind::terminate()).unwrap();
    let end = async move {
        asked.recv().await;
        twin::say("ending");
    };
    let client = World::client_of(orders.server);
    let worker = Worker::new(&client, "q").lease(LEASE).grace(orders.grace);
    let tally = worker.run(charging(ledger(&orders.shop), Gate::new(orders.stop)), end).await.unwrap();
    twin::say(format_args!("done {}, deferred {}, lost {}", tally.done, tally.deferred, tally.lost));
}

/// The handler of the worker: a charge, in one transaction with the ledger.
fn charging(ledger: Ledger<Sqlite>, gate: Gate) -> impl Handler {
    Once::new(move |delivery, call: Call| {
        let (ledger, gate, inner) = (ledger.clone(), gate.clone(), gate.clone());
        async move {
            gate.pass(Stop::Begun).await;
            let charge = move |shop: &Connection| -> Result<i64, rusqlite::Error> {
                shop.execute("INSERT INTO charge (key) VALUES (?1)", [delivery.key()])?;
                Handle::current().block_on(inner.pass(Stop::Charged));
                Ok(shop.last_insert_rowid())
            };
            let verdict = ledger.transact(&call, charge).await;
            gate.pass(Stop::Done).await;
            verdict
        }
    })
}

/// Where the worker's process may stand still.
#[derive(Clone)]
struct Gate {
    stop: Option<Stop>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new(stop: Option<Stop>) -> Self {
        let open = Arc::new(Semaphore::new(0));
        let opened = open.clone();
        twin::when_let_on(move || opened.close());
        Self { stop, open }
    }

    async fn pass(&self, here: Stop) {
        if self.stop == Some(here) {
            twin::say(format_args!("at {here:?}"));
            // It is closed, never released.
            self.open.acquire().await.map(drop).unwrap_err();
        }
    }
}
