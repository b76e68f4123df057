//! Two servers on one database: what one does the other knows, and what one leaves behind when it dies the other goes on with.

use std::time::Duration;

use semel_core::time::Millis;
use semel_server::peers::Pace;
use semel_server::service::{AuthMode, Options};
use semel_store::shared::NODE_LOST;
use semel_store_postgres as postgres;
use serde_json::{Value, json};

use crate::kit::{
    Backend, NEVER, Worker, World, eventually, postgres_options, secs, text, usual_options, within,
};

/// How often nodes look for each other's work when they cannot hear it.
const LOOK: Duration = Duration::from_millis(50);

/// Nodes that only hear each other: whatever is found is found because it was told.
fn hearing() -> Options {
    paced(NEVER, NEVER)
}

/// Nodes that look for what they could not hear.
fn looking() -> Options {
    paced(NEVER, LOOK)
}

fn paced(sweep: Duration, sweep_deaf: Duration) -> Options {
    let pace = Pace { beat: Duration::from_millis(100), sweep, sweep_deaf, ..Pace::default() };
    Options { pace, auth: AuthMode::Keys, poll: NEVER, ..Options::default() }
}

/// Two nodes.
struct Two {
    a: World,
    b: World,
}

impl Two {
    async fn start(options: Options) -> Self {
        Self::with(options.clone(), options, |_| {}).await
    }

    /// Two nodes that may differ, once they have heard of each other.
    async fn with(a: Options, b: Options, change: impl FnOnce(&mut postgres::Options)) -> Self {
        let a = World::shaped(Backend::Postgres, |_| a).await;
        // Its first heartbeat takes the roles, and is on its way still when it can be reached: the second node could be faster.
        eventually(async || {
            let seen = a.client.get("/v1/nodes").await.expect(200);
            seen["nodes"][0]["roles"].as_array().filter(|roles| !roles.is_empty()).map(drop)
        })
        .await;
        let mut store = postgres_options(a.clock.clone());
        store.node_name = "b".into();
        change(&mut store);
        let two = Self { b: a.join(store, b).await, a };
        two.a.queue("hello", json!({})).await;
        eventually(async || {
            two.a.publish("hello", json!({ "payload": 1 })).await;
            (!two.b.lease("hello", 100).await.is_empty()).then_some(())
        })
        .await;
        two
    }

    async fn end(self) {
        self.a.end().await;
        self.b.end().await;
    }

    /// The nodes as the second sees them.
    async fn nodes(&self) -> Vec<Value> {
        self.b.client.get("/v1/nodes").await.expect(200)["nodes"].as_array().unwrap().clone()
    }
}

/// A worker at the second node waits; a job that is published at the first wakes it.
async fn published_here_polled_there(two: &Two) {
    two.a.queue("q", json!({})).await;
    let poll = async {
        loop {
            let body = json!({ "wait": 30 });
            let answer = two.b.client.post("/v1/queues/q/lease", body).await.expect(200);
            if let Some(job) = answer["jobs"].as_array().unwrap().first() {
                return job.clone();
            }
        }
    };
    let publish = async {
        two.b.until_somebody_waits("q").await;
        two.a.publish("q", json!({ "payload": 1 })).await
    };
    let (leased, made) = within(async { tokio::join!(poll, publish) }).await;
    assert_eq!(leased["id"], made["id"]);
    two.b.settle("ack", &leased, json!({})).await.expect(200);
    two.a.until(made["id"].as_str().unwrap(), "completed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_published_at_one_node_is_known_at_the_other_at_once() {
    let two = Two::start(hearing()).await;
    published_here_polled_there(&two).await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_hear_looks_for_itself() {
    let nowhere = "postgres://nobody@%2Fnonexistent/nowhere".to_owned();
    let two = Two::with(hearing(), looking(), |store| store.listen_url = Some(nowhere)).await;
    published_here_polled_there(&two).await;
    let made = two.a.client.post("/v1/api-keys", json!({ "scopes": ["read"] })).await.expect(201);
    let stranger = two.b.client.with_secret(made["secret"].as_str());
    eventually(async || (stranger.get("/v1/queues").await.status == 200).then_some(())).await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_killed_loses_no_job() {
    let two = Two::start(looking()).await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    for round in 0..3 {
        let killed = two.a.home.database().sql(kill).unwrap();
        assert!(killed.contains('t') || round > 0, "somebody listened: {killed:?}");
        let queue = format!("q{round}");
        two.a.queue(&queue, json!({})).await;
        let made = two.a.publish(&queue, json!({ "payload": round })).await;
        let path = format!("/v1/queues/{queue}/lease");
        let leased = two.b.client.post(&path, json!({ "wait": 30 })).await.expect(200);
        assert_eq!(leased["jobs"][0]["id"], made["id"]);
    }
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_has_no_room_for_another_delivers() {
    let one_at_a_time = Options { in_flight_per_queue: 1, ..hearing() };
    let two = Two::start(one_at_a_time).await;
    let mut worker = Worker::start().await;
    worker.hold_answers();
    two.a.push_queue("push", &worker, json!({}), json!({})).await;
    let mut ids = Vec::new();
    for n in 0..2 {
        ids.push(two.a.publish("push", json!({ "payload": n })).await["id"].as_str().unwrap().to_owned());
    }
    let mut called = [worker.call().await.id().to_owned(), worker.call().await.id().to_owned()];
    called.sort();
    assert_eq!(called[..], ids[..], "each node has one of them");
    worker.go_on();
    for id in &ids {
        two.b.until(id, "completed").await;
    }
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_at_one_node_holds_the_other() {
    let two = Two::start(hearing()).await;
    let mut worker = Worker::start().await;
    two.a.push_queue("push", &worker, json!({}), json!({})).await;
    let first = two.a.publish("push", json!({ "payload": 1 })).await["id"].as_str().unwrap().to_owned();
    assert_eq!(worker.call().await.id(), first);
    two.b.until(&first, "completed").await;

    two.a.client.post("/v1/queues/push/pause", json!({})).await.expect(200);
    assert_eq!(two.b.look_at("push").await["paused"], true);
    let id = two.b.publish("push", json!({ "payload": 2 })).await["id"].as_str().unwrap().to_owned();
    // Both nodes have looked since: each was told, and does what it is told in order.
    published_here_polled_there(&two).await;
    assert_eq!(worker.calls_so_far().len(), 0, "it is paused everywhere");
    assert_eq!(two.b.job(&id).await["status"], "pending");
    two.b.client.post("/v1/queues/push/resume", json!({})).await.expect(200);
    assert_eq!(worker.call().await.id(), id);
    two.end().await;
}

/// Whoever delivers it, a job goes where its queue says when it is published, and not where it said before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_changed_at_one_node_is_delivered_the_new_way_by_the_other() {
    let two = Two::start(hearing()).await;
    let mut workers = [Worker::start().await, Worker::start().await];
    two.a.push_queue("push", &workers[0], json!({}), json!({})).await;
    for round in 1..20 {
        let (now, before) = (round % 2, (round + 1) % 2);
        let config = json!({ "delivery": { "type": "push", "url": workers[now].url() } });
        two.a.client.put("/v1/queues/push", config).await.expect(200);
        let id = two.a.publish("push", json!({ "payload": round })).await["id"].as_str().unwrap().to_owned();
        assert_eq!(workers[now].call().await.id(), id, "round {round}");
        assert_eq!(workers[before].calls_so_far().len(), 0, "round {round}");
        two.b.until(&id, "completed").await;
    }
    // And so it is when only the node that was told can deliver.
    let config = json!({ "delivery": { "type": "push", "url": workers[0].url() } });
    two.a.client.put("/v1/queues/push", config).await.expect(200);
    two.a.cut_off().await;
    let id = two.b.publish("push", json!({ "payload": "last" })).await["id"].as_str().unwrap().to_owned();
    assert_eq!(workers[0].call().await.id(), id);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_key_of_one_node_opens_and_closes_the_other() {
    let two = Two::start(hearing()).await;
    let made = two.a.client.post("/v1/api-keys", json!({ "scopes": ["read"] })).await.expect(201);
    let stranger = two.b.client.with_secret(made["secret"].as_str());
    eventually(async || (stranger.get("/v1/queues").await.status == 200).then_some(())).await;
    let path = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
    assert_eq!(two.a.client.delete(&path).await.status, 204);
    eventually(async || (stranger.get("/v1/queues").await.status == 401).then_some(())).await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_fires_once_whichever_node_has_it() {
    let two = Two::start(hearing()).await;
    two.a.queue("q", json!({})).await;
    let schedule = json!({ "queue": "q", "cron": "* * * * *", "payload": 1 });
    two.b.client.put("/v1/schedules/tick", schedule).await.expect(201);
    let until_next = async |world: &World, tick: String| {
        let look = async || {
            let seen = world.client.get("/v1/schedules/tick").await.expect(200);
            (seen["nextAt"] == tick.as_str()).then_some(())
        };
        within(eventually(look)).await;
    };
    for _ in 0..3 {
        two.a.advance(secs(60));
        until_next(&two.b, two.a.in_secs(60)).await;
    }
    // The other goes on with it when this one is gone.
    two.a.cut_off().await;
    for _ in 0..3 {
        two.b.advance(secs(60));
        until_next(&two.b, two.b.in_secs(60)).await;
    }
    let page = two.b.client.get("/v1/jobs?queue=q&limit=100").await.expect(200);
    let keys = page["jobs"].as_array().unwrap().iter().rev().map(|job| job["idempotencyKey"].clone());
    let expected = (1..=6).map(|minute| json!(format!("schedule:tick:2026-11-15T12:0{minute}:00Z")));
    assert_eq!(keys.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_roles_of_a_node_that_dies_go_to_the_other() {
    let two = Two::start(hearing()).await;
    let roles = |nodes: &[Value], at: usize| nodes[at]["roles"].as_array().unwrap().len();
    let before = two.nodes().await;
    assert_eq!((roles(&before, 0), roles(&before, 1)), (4, 0), "{before:?}");
    two.a.queue("q", json!({})).await;
    let id = two.a.publish("q", json!({ "payload": 1 })).await["id"].as_str().unwrap().to_owned();
    two.a.lease_one("q").await;
    two.a.cut_off().await;
    two.b.advance(NODE_LOST);
    let after = eventually(async || Some(two.nodes().await).filter(|nodes| roles(nodes, 1) == 4)).await;
    assert_eq!((&after[0]["lost"], roles(&after, 0)), (&json!(true), 0), "{after:?}");
    assert_eq!((&after[1]["this"], &after[1]["lost"]), (&json!(true), &json!(false)));
    assert_eq!(after[0]["seenAt"], before[0]["seenAt"]);
    assert_eq!(two.b.job(&id).await["status"], "processing", "its lease lasts");
    two.b.advance(secs(60));
    two.b.until(&id, "pending").await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_loses_its_deliveries_at_once_and_workers_keep_their_leases() {
    let two = Two::start(hearing()).await;
    let mut worker = Worker::start().await;
    two.a.queue("pull", json!({})).await;
    let pulled = two.a.publish("pull", json!({ "payload": 1 })).await["id"].as_str().unwrap().to_owned();
    let lease = two.a.lease_one("pull").await;
    worker.hold_answers();
    two.a.push_queue("push", &worker, json!({ "timeout": 600 }), json!({ "concurrency": 1 })).await;
    let pushed = two.a.publish("push", json!({ "payload": 1 })).await["id"].as_str().unwrap().to_owned();
    let first = worker.call().await;
    assert_eq!((first.id(), &first.body["attempt"]), (pushed.as_str(), &json!(1)));
    let holder = "SELECT l.node FROM semel.live l JOIN semel.queue q ON q.id = l.queue WHERE q.name = 'push'";
    let first_has_it = two.a.home.database().sql(holder).unwrap() == "0";
    let (dead, alive) = if first_has_it { (&two.a, &two.b) } else { (&two.b, &two.a) };
    dead.cut_off().await;
    worker.go_on();
    alive.advance(NODE_LOST);
    let again = worker.call().await;
    assert_eq!((again.id(), &again.body["attempt"]), (pushed.as_str(), &json!(1)), "no attempt is burned");
    assert_ne!(again.body["lease"], first.body["lease"]);
    alive.until(&pushed, "completed").await;
    assert_eq!(alive.job(&pushed).await["attempts"], 1);
    alive.settle("ack", &lease, json!({})).await.expect(200);
    assert_eq!(alive.job(&pulled).await["status"], "completed");
    two.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_waited_for_at_another_node() {
    let two = Two::start(hearing()).await;
    two.a.queue("q", json!({})).await;
    let id = two.a.publish("q", json!({ "payload": 1 })).await["id"].as_str().unwrap().to_owned();
    let leased = two.a.lease_one("q").await;
    let path = format!("/v1/jobs/{id}?wait=30");
    let wait = two.b.client.get(&path);
    let ack = async { two.a.settle("ack", &leased, json!({ "result": 42 })).await.expect(200) };
    let (waited, _) = within(async { tokio::join!(wait, ack) }).await;
    assert_eq!(waited.expect(200)["result"], 42);
    two.end().await;
}

/// A server on a store of its own is a node, too, and the only one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_alone_lists_itself() {
    let world = World::shaped(Backend::Embedded, usual_options).await;
    world.advance(Millis::from_secs(5));
    let nodes = world.client.get("/v1/nodes").await.expect(200)["nodes"].as_array().unwrap().clone();
    assert_eq!(nodes.len(), 1);
    let seen = text(world.now());
    assert_eq!(
        (&nodes[0]["this"], &nodes[0]["lost"], nodes[0]["seenAt"].as_str()),
        (&json!(true), &json!(false), Some(seen.as_str()))
    );
    assert_eq!(nodes[0]["roles"], json!(["rescue", "prune", "schedules", "replays"]));
    world.end().await;
}
