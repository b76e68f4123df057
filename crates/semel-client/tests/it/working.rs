//! The worker's loop: what becomes of jobs, leases and settles, also when things go wrong.

use std::sync::Arc;
use std::time::Duration;

use semel_client::http::{AttemptStatus, Client, Code, Error};
use semel_client::worker::{Tally, Worker};
use semel_client::{Delivery, Effect, Handler, Outcome, Publish, State};
use semel_cluster::Proxy;
use semel_server::service::Options;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::world::{World, until, within};

const SECOND: Duration = Duration::from_secs(1);

/// A worker that runs, and how to stop it.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<Tally, Error>>,
}

impl Running {
    fn start(worker: Worker, handler: impl Handler) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move { worker.run(handler, async { drop(stopped.await) }).await });
        Self { stop: Some(stop), task }
    }

    async fn stop(mut self) -> Tally {
        drop(self.stop.take());
        within(self.task).await.unwrap().unwrap()
    }
}

async fn publish(client: &Client, n: u32) -> String {
    client.publish(&Publish::new("q", &n).unwrap().key(format!("k-{n}"))).await.unwrap().id
}

/// A handler that says when it began, and goes on when it may.
fn waiting(began: mpsc::UnboundedSender<Delivery>, go: Arc<Semaphore>) -> impl Handler {
    move |delivery: Delivery| {
        let (began, go) = (began.clone(), go.clone());
        async move {
            began.send(delivery).unwrap();
            go.acquire().await.unwrap().forget();
            Outcome::done_with("first")
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_job_is_done_once_with_its_result_and_receipt() {
    let world = World::start().await;
    let client = world.client();
    let wishes: Vec<_> = (0..100).map(|n| Publish::new("q", &n).unwrap().key(format!("k-{n}"))).collect();
    let jobs: Vec<_> = client.publish_all(&wishes).await.into_iter().map(|job| job.unwrap().id).collect();
    let handler = async |delivery: Delivery| {
        let n: u32 = delivery.payload().unwrap();
        assert_eq!((delivery.key(), delivery.attempt), (format!("k-{n}").as_str(), 1));
        assert!(delivery.token().is_some());
        Outcome::done_with(&(n + 1)).receipt(Effect::Applied, Some(delivery.key()))
    };
    let running = Running::start(Worker::new(&client, "q").concurrency(32), handler);
    for (n, id) in jobs.iter().enumerate() {
        let job = world.until(id, State::Completed).await;
        assert_eq!(job.result::<usize>().unwrap(), Some(n + 1));
        let effect = job.effect.unwrap();
        assert_eq!((effect.outcome, effect.key), (Effect::Applied, Some(format!("k-{n}"))));
    }
    let tally = running.stop().await;
    assert_eq!((tally.done, tally.failed, tally.lost, tally.unsettled), (100, 0, 0, 0));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_says_is_what_becomes_of_the_job() {
    let world = World::start().await;
    world.impatient_queue("q").await;
    let client = world.client();
    let handler = async |delivery: Delivery| -> Outcome {
        match (delivery.payload().unwrap(), delivery.attempt, delivery.defer_count) {
            (1, _, 0) => Outcome::defer(Duration::ZERO).because("not yet"),
            (2, 1, _) => Outcome::from(Err::<(), _>("no luck")),
            (3, _, _) => Outcome::reject("never"),
            (4, 1, _) => panic!("on purpose"),
            _ => Outcome::done(),
        }
    };
    let mut jobs = Vec::new();
    for n in 1..=4 {
        jobs.push(publish(&client, n).await);
    }
    let running = Running::start(Worker::new(&client, "q"), handler);
    let deferred = world.until(&jobs[0], State::Completed).await;
    assert_eq!((deferred.attempts, deferred.defer_count), (1, 1), "a deferral burns no attempt");
    assert_eq!(deferred.history[0].status, AttemptStatus::Deferred);
    let failed = world.until(&jobs[1], State::Completed).await;
    assert_eq!((failed.attempts, failed.history[0].error.as_deref()), (2, Some("no luck")));
    let rejected = world.until(&jobs[2], State::Dead).await;
    assert_eq!((rejected.attempts, rejected.last_error.as_deref()), (1, Some("never")));
    let panicked = world.until(&jobs[3], State::Completed).await;
    assert!(panicked.history[0].error.as_ref().unwrap().contains("panicked"));
    let tally = running.stop().await;
    assert_eq!((tally.done, tally.deferred, tally.failed), (3, 1, 3));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_keep_a_long_job_ones_own() {
    let world = World::start().await;
    let client = world.client();
    let id = publish(&client, 1).await;
    let (began, mut begun) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let running = Running::start(Worker::new(&client, "q").lease(SECOND), waiting(began, go.clone()));
    within(begun.recv()).await.unwrap();
    for _ in 0..4 {
        let beats = world.settles();
        world.advance(Duration::from_millis(700));
        // The second of them began after time was moved on.
        until(async || world.settles() >= beats + 2).await;
    }
    go.add_permits(1);
    let job = world.until(&id, State::Completed).await;
    assert_eq!((job.attempts, job.history.len()), (1, 1), "{:?}", job.history);
    assert_eq!(running.stop().await.done, 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_cut_off_past_its_lease_settles_nothing() {
    struct Broken(Arc<Notify>);
    impl Drop for Broken {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let world = World::start().await;
    world.impatient_queue("q").await;
    let id = publish(&world.client(), 1).await;
    let proxy = Proxy::to(world.address).unwrap();
    let (began, mut begun) = mpsc::unbounded_channel();
    let broken_off = Arc::new(Notify::new());
    let guard = broken_off.clone();
    let stalled = move |delivery: Delivery| {
        let (began, guard) = (began.clone(), Broken(guard.clone()));
        async move {
            began.send(delivery).unwrap();
            std::future::pending::<()>().await;
            drop(guard);
        }
    };
    let far = World::client_of(proxy.address());
    let first = Running::start(Worker::new(&far, "q").lease(SECOND), stalled);
    within(begun.recv()).await.unwrap();
    proxy.blackhole();
    world.advance(2 * SECOND);
    let second = async |delivery: Delivery| Outcome::done_with(&delivery.attempt);
    let second = Running::start(Worker::new(&world.client(), "q"), second);
    let job = world.until(&id, State::Completed).await;
    assert_eq!(job.result::<u32>().unwrap(), Some(2));
    assert_eq!(second.stop().await.done, 1);
    proxy.cut();
    proxy.pass();
    within(broken_off.notified()).await;
    let tally = first.stop().await;
    assert_eq!((tally.done, tally.lost), (0, 1));
    let job = world.client().job(&id).await.unwrap();
    assert_eq!(job.result::<u32>().unwrap(), Some(2), "the first worker changed nothing");
    drop(proxy);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_comes_too_late_is_lost_and_changes_nothing() {
    let world = World::start().await;
    world.impatient_queue("q").await;
    let id = publish(&world.client(), 1).await;
    let proxy = Proxy::to(world.address).unwrap();
    let (began, mut begun) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let far = World::client_of(proxy.address());
    let first = Running::start(Worker::new(&far, "q").lease(10 * SECOND), waiting(began, go.clone()));
    within(begun.recv()).await.unwrap();
    proxy.blackhole();
    // It finishes, cannot say so, and its lease runs out.
    go.add_permits(1);
    world.advance(11 * SECOND);
    let second = async |_: Delivery| Outcome::done_with("second");
    let second = Running::start(Worker::new(&world.client(), "q"), second);
    world.until(&id, State::Completed).await;
    second.stop().await;
    proxy.cut();
    proxy.pass();
    let tally = first.stop().await;
    assert_eq!((tally.done, tally.lost), (0, 1));
    let job = world.client().job(&id).await.unwrap();
    assert_eq!(job.result::<String>().unwrap().as_deref(), Some("second"));
    drop(proxy);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_of_a_worker_that_died_is_worked_on_by_another() {
    let world = World::start().await;
    world.impatient_queue("q").await;
    let client = world.client();
    let id = publish(&client, 1).await;
    let (began, mut begun) = mpsc::unbounded_channel();
    let handler = waiting(began, Arc::new(Semaphore::new(0)));
    // So long that no heartbeat is due while the test runs, however busy the machine: one that came in just after the time was
    // moved on would keep the job for a dead worker.
    let lease = 60 * SECOND;
    let first = Running::start(Worker::new(&client, "q").lease(lease), handler);
    let held = within(begun.recv()).await.unwrap();
    first.task.abort();
    assert!(within(first.task).await.unwrap_err().is_cancelled());
    let second = async |delivery: Delivery| Outcome::done_with(&delivery.token().unwrap());
    let second = Running::start(Worker::new(&client, "q"), second);
    world.advance(2 * lease);
    let job = world.until(&id, State::Completed).await;
    assert!(job.result::<u64>().unwrap() > held.token(), "a later delivery has a higher token");
    assert_eq!(job.history[0].status, AttemptStatus::Expired);
    second.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_finishes_what_it_has_and_takes_nothing_more() {
    let world = World::start().await;
    let client = world.client();
    let first = publish(&client, 1).await;
    let (began, mut begun) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let mut running = Running::start(Worker::new(&client, "q"), waiting(began, go.clone()));
    within(begun.recv()).await.unwrap();
    let second = publish(&client, 2).await;
    drop(running.stop.take());
    go.add_permits(2);
    assert_eq!(running.stop().await.done, 1);
    assert_eq!(client.job(&first).await.unwrap().state, State::Completed);
    let left = client.job(&second).await.unwrap();
    assert_eq!((left.state, left.attempts), (State::Pending, 0));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_finished_in_time_is_put_back_without_burning_an_attempt() {
    let world = World::start().await;
    let client = world.client();
    let id = publish(&client, 1).await;
    let (began, mut begun) = mpsc::unbounded_channel();
    let handler = waiting(began, Arc::new(Semaphore::new(0)));
    let worker = Worker::new(&client, "q").grace(Duration::ZERO);
    let running = Running::start(worker, handler);
    within(begun.recv()).await.unwrap();
    assert_eq!(running.stop().await.deferred, 1);
    let job = client.job(&id).await.unwrap();
    assert_eq!((job.state, job.attempts, job.defer_count), (State::Pending, 0, 1));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_waited_for() {
    let world = World::start().await;
    let proxy = Proxy::to(world.address).unwrap();
    let far = World::client_of(proxy.address()).with_deadline(Duration::from_millis(100));
    let running = Running::start(Worker::new(&far, "q"), async |_: Delivery| Outcome::done());
    until(async || proxy.connections() > 0).await;
    proxy.refuse();
    proxy.cut();
    let id = publish(&world.client(), 1).await;
    proxy.pass();
    world.until(&id, State::Completed).await;
    assert_eq!(running.stop().await.done, 1);
    drop(proxy);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_refused_says_so() {
    let world = World::with(Options::default(), None).await;
    let worker = Worker::new(&world.client(), "nowhere");
    let refused = worker.run(async |_: Delivery| Outcome::done(), std::future::pending()).await;
    assert_eq!(refused.unwrap_err().problem().unwrap().code, Code::QueueNotFound);
    world.end().await;
}
