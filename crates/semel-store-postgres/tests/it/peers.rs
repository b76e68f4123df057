//! Nodes on one database: who is seen, who has which role, what is heard, and what becomes of those who are gone.

use std::sync::Arc;
use std::time::Duration;

use semel_cluster::{Bouncer, Cluster, Database};
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::{self, Push, QueueConfig};
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::shared::{Heard, NODE_LOST, NodeId, ROLE_SPAN, Shared, Wakes};
use semel_store::{Command, ManualClock, Reply, Store};
use semel_store_postgres::{Options, PostgresStore};

use crate::harness::{START, connect, database, options};

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// A database, a clock that the test moves, and stores that are nodes on both.
struct Nodes {
    database: Database<'static>,
    clock: Arc<ManualClock>,
}

impl Nodes {
    fn new() -> Self {
        Self { database: database(), clock: Arc::new(ManualClock::at(START)) }
    }

    async fn join(&self, name: &str) -> PostgresStore {
        let options = Options { node_name: name.into(), ..options(&self.clock) };
        PostgresStore::open(self.database.url(), options).await.unwrap()
    }
}

fn name(queue: &str) -> QueueName {
    QueueName::try_from(queue).unwrap()
}

fn ready(queue: &str, jobs: u32) -> Wakes {
    Wakes { ready: [(name(queue), jobs)].into(), ..Wakes::default() }
}

async fn tell(store: &PostgresStore, command: Command) -> Reply {
    store.apply(vec![command]).await.unwrap().remove(0).unwrap()
}

async fn put_queue(store: &PostgresStore, queue: &str, config: QueueConfig) {
    tell(store, Command::PutQueue { name: name(queue), config: Box::new(config) }).await;
}

async fn publish(store: &PostgresStore, queue: &str) {
    let draft = Draft::new(name(queue), Payload::from_json("1").unwrap());
    tell(store, Command::Publish(draft.check().unwrap())).await;
}

async fn lease(store: &PostgresStore, queue: &str) -> Vec<Delivery> {
    store.lease(LeaseRequest::new(name(queue), 10, None).unwrap()).await.unwrap()
}

fn settle(delivery: &Delivery, outcome: Outcome) -> Command {
    Command::Settle(Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap())
}

fn push_queue() -> QueueConfig {
    let push = Push { url: "http://worker.test/".into(), ..Push::default() };
    QueueConfig { delivery: queue::Delivery::Push(push), ..QueueConfig::default() }
}

/// The next thing that is heard, passing over nodes that only say that they are there.
async fn heard(store: &PostgresStore) -> Heard {
    let hear = async {
        loop {
            match store.hear().await {
                Heard::Wakes(wakes) if wakes.is_empty() => {}
                heard => return heard,
            }
        }
    };
    tokio::time::timeout(DEADLINE, hear).await.expect("something is heard")
}

#[tokio::test]
async fn nodes_see_each_other_and_one_that_is_silent_is_lost() {
    let nodes = Nodes::new();
    let (a, b) = (nodes.join("a").await, nodes.join("b").await);
    assert_eq!(a.beat(&[]).await.unwrap().others, 1);
    nodes.clock.advance(NODE_LOST.minus(Millis::from_millis(1)));
    let beat = b.beat(&[]).await.unwrap();
    assert_eq!((beat.others, beat.lost), (1, vec![]));
    nodes.clock.advance(Millis::from_millis(1));
    let beat = b.beat(&[]).await.unwrap();
    assert_eq!((beat.others, beat.lost), (0, vec![a.id()]));
    let listed = b.nodes().await.unwrap();
    let brief: Vec<_> = listed.iter().map(|node| (node.name.as_str(), node.lost, node.seen_at)).collect();
    assert_eq!(brief, [("a", true, START), ("b", false, START.plus(NODE_LOST))]);

    assert_eq!(b.take_back(a.id()).await.unwrap(), []);
    assert_eq!(b.beat(&[]).await.unwrap().lost, [], "it is done with");
    assert_eq!(a.beat(&[]).await.unwrap().others, 1, "it was only silent");
    nodes.clock.advance(NODE_LOST);
    assert_eq!(b.beat(&[]).await.unwrap().lost, [a.id()], "and is lost anew");
    a.close().await.unwrap();
    assert_eq!(b.nodes().await.unwrap().len(), 1, "whoever ends in order leaves the list");
    b.close().await.unwrap();
}

#[tokio::test]
async fn a_role_has_one_holder_until_it_leaves_or_dies() {
    let nodes = Nodes::new();
    let (a, b) = (nodes.join("a").await, nodes.join("b").await);
    assert_eq!(a.beat(&["prune", "rescue"]).await.unwrap().held, ["prune", "rescue"]);
    assert_eq!(b.beat(&["prune", "rescue", "archive"]).await.unwrap().held, ["archive"]);
    assert_eq!(a.beat(&["prune", "rescue"]).await.unwrap().held, ["prune", "rescue"], "it keeps them");
    nodes.clock.advance(ROLE_SPAN.minus(Millis::from_millis(1)));
    assert_eq!(b.beat(&["prune"]).await.unwrap().held, [""; 0]);
    nodes.clock.advance(Millis::from_millis(1));
    assert_eq!(b.beat(&["prune"]).await.unwrap().held, ["prune"]);
    assert_eq!(a.beat(&["prune", "rescue"]).await.unwrap().held, ["rescue"], "it comes back too late");
    let listed = b.nodes().await.unwrap();
    assert_eq!((&listed[0].roles, &listed[1].roles), (&vec!["rescue".to_owned()], &vec!["prune".to_owned()]));

    b.leave_roles().await.unwrap();
    assert_eq!(a.beat(&["prune"]).await.unwrap().held, ["prune"], "at once");
    a.close().await.unwrap();
    assert_eq!(b.beat(&["prune", "rescue"]).await.unwrap().held, ["prune", "rescue"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_ask_at_once_one_gets_the_role() {
    let nodes = Nodes::new();
    let mut stores = Vec::new();
    for n in 0..4 {
        stores.push(Arc::new(nodes.join(&format!("node-{n}")).await));
    }
    for _ in 0..10 {
        let ask = |store: &Arc<PostgresStore>| {
            let store = store.clone();
            tokio::spawn(async move { store.beat(&["archive", "prune", "rescue"]).await.unwrap().held.len() })
        };
        let asked: Vec<_> = stores.iter().map(ask).collect();
        let mut held = 0;
        for answer in asked {
            held += answer.await.unwrap();
        }
        assert_eq!(held, 3, "each role once");
        nodes.clock.advance(ROLE_SPAN);
    }
}

#[tokio::test]
async fn a_node_that_was_struck_off_joins_again_under_another_number() {
    let nodes = Nodes::new();
    let (a, b) = (nodes.join("a").await, nodes.join("b").await);
    put_queue(&b, "q", QueueConfig::default()).await;
    let old = a.id();
    nodes.clock.advance(NODE_LOST);
    b.beat(&[]).await.unwrap();
    b.take_back(old).await.unwrap();
    nodes.clock.advance(Millis::from_secs(600));
    b.beat(&[]).await.unwrap();
    assert_eq!(b.nodes().await.unwrap().len(), 1, "its number is free");
    nodes.clock.advance(Millis::from_secs(1));
    let c = nodes.join("c").await;
    assert_eq!(c.id(), old, "and another has it");

    assert_eq!(a.beat(&["prune"]).await.unwrap().held, ["prune"]);
    assert_eq!((a.id(), c.id()), (NodeId(2), old));
    publish(&a, "q").await;
    let lanes =
        lease(&a, "q").await.iter().map(|delivery| delivery.id.raw() >> 12 & 0x3ff).collect::<Vec<_>>();
    assert_eq!(lanes, [2], "its ids are of its new number");
}

#[tokio::test]
async fn what_one_node_tells_the_others_hear() {
    let nodes = Nodes::new();
    let (a, b) = (nodes.join("a").await, nodes.join("b").await);
    assert_eq!(heard(&a).await, Heard::Hearing);
    assert_eq!(heard(&b).await, Heard::Hearing);
    let wakes = Wakes {
        changed: [name("x")].into(),
        gone: [name("y")].into(),
        api_keys: true,
        busy: [a.id()].into(),
        ..ready("q", 3)
    };
    a.tell(wakes.clone()).await.unwrap();
    assert_eq!(heard(&b).await, Heard::Wakes(wakes));
    b.tell(ready("other", 1)).await.unwrap();
    assert_eq!(heard(&a).await, Heard::Wakes(ready("other", 1)), "and not what it told itself");
    let many: Vec<_> = (0..300).map(|n| name(&format!("{:x<100}{n}", ""))).collect();
    let many = Wakes { changed: many.into_iter().collect(), ..Wakes::default() };
    a.tell(many).await.unwrap();
    let Heard::Wakes(heard) = heard(&b).await else { panic!("it hears") };
    assert!(heard.everything, "more than fits is: look at everything");
    // As the SQL functions do it.
    let client = connect(nodes.database.url()).await;
    client.execute(r#"SELECT pg_notify('semel', '{"ready":{"mail":1}}')"#, &[]).await.unwrap();
    assert_eq!(self::heard(&b).await, Heard::Wakes(ready("mail", 1)));
}

/// Tells of two queues in turn until the first is left out.
async fn told_until_silent(a: &PostgresStore, b: &PostgresStore, queue: &str) {
    let both = Wakes { ready: [(name(queue), 1), (name("other"), 1)].into(), ..Wakes::default() };
    let silent = async {
        loop {
            a.tell(both.clone()).await.unwrap();
            match heard(b).await {
                Heard::Wakes(wakes) if wakes == ready("other", 1) => return,
                heard => assert_eq!(heard, Heard::Wakes(both.clone()), "nothing else was told"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, silent).await.expect("nobody need be told");
}

#[tokio::test]
async fn that_there_is_more_where_nobody_takes_anything_is_told_more_rarely() {
    let nodes = Nodes::new();
    let (a, b) = (nodes.join("a").await, nodes.join("b").await);
    assert_eq!(heard(&b).await, Heard::Hearing);
    put_queue(&a, "full", QueueConfig::default()).await;
    put_queue(&a, "limited", QueueConfig { concurrency: Some(1), ..QueueConfig::default() }).await;
    publish(&a, "full").await;
    publish(&a, "limited").await;
    for _ in 0..3 {
        a.tell(ready("full", 1)).await.unwrap();
        assert_eq!(heard(&b).await, Heard::Wakes(ready("full", 1)), "it has only just become ready");
    }
    nodes.clock.advance(Millis::from_secs(2));
    told_until_silent(&a, &b, "full").await;
    // Jobs of a queue that something limits may be ready for long although somebody waits.
    let limited =
        Wakes { ready: [(name("limited"), 1)].into(), changed: [name("full")].into(), ..Wakes::default() };
    for _ in 0..3 {
        a.tell(limited.clone()).await.unwrap();
        assert_eq!(heard(&b).await, Heard::Wakes(limited.clone()), "changes are always told");
    }
    assert_eq!(lease(&b, "full").await.len(), 1);
    let again = async {
        loop {
            a.tell(ready("full", 1)).await.unwrap();
            a.tell(ready("end", 1)).await.unwrap();
            match heard(&b).await {
                Heard::Wakes(wakes) if wakes == ready("end", 1) => {}
                heard => return heard,
            }
        }
    };
    let heard = tokio::time::timeout(DEADLINE, again).await.expect("it is told again");
    let Heard::Wakes(wakes) = heard else { panic!("{heard:?}") };
    assert!(wakes.ready.contains_key(&name("full")), "{wakes:?}");
    a.close().await.unwrap();
    b.close().await.unwrap();
}

#[tokio::test]
async fn a_heartbeat_says_that_a_node_is_there() {
    let nodes = Nodes::new();
    let a = nodes.join("a").await;
    assert_eq!(heard(&a).await, Heard::Hearing);
    let b = nodes.join("b").await;
    b.beat(&[]).await.unwrap();
    let hear = tokio::time::timeout(DEADLINE, a.hear()).await.unwrap();
    assert_eq!(hear, Heard::Wakes(Wakes::default()));
}

#[tokio::test]
async fn a_connection_that_is_killed_is_noticed_and_made_anew() {
    let nodes = Nodes::new();
    let (a, b) = (nodes.join("a").await, nodes.join("b").await);
    assert_eq!(heard(&b).await, Heard::Hearing);
    let client = connect(nodes.database.url()).await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    assert_eq!(client.query(kill, &[]).await.unwrap().len(), 1);
    assert_eq!(heard(&b).await, Heard::Deaf);
    assert_eq!(heard(&b).await, Heard::Hearing);
    a.tell(ready("q", 1)).await.unwrap();
    assert_eq!(heard(&b).await, Heard::Wakes(ready("q", 1)));
    b.close().await.unwrap();
    let listening =
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let gone = async {
        while !client.query(listening, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("a store that is closed listens no more");
}

#[tokio::test]
async fn a_node_without_a_way_to_listen_is_deaf_and_works() {
    let nodes = Nodes::new();
    let nowhere = "postgres://nobody@%2Fnonexistent/nowhere".to_owned();
    let options = Options { listen_url: Some(nowhere), ..options(&nodes.clock) };
    let store = PostgresStore::open(nodes.database.url(), options).await.unwrap();
    assert_eq!(heard(&store).await, Heard::Deaf);
    store.beat(&[]).await.unwrap();
    store.close().await.unwrap();
}

/// A pooler that gives every transaction another connection takes a LISTEN, and gives what is heard to somebody else.
#[tokio::test]
async fn behind_a_pooler_a_node_knows_that_it_is_deaf_and_a_direct_way_helps() {
    let clusters = tokio::task::spawn_blocking(|| {
        let cluster = Cluster::with(&[("fsync", "off")]).unwrap();
        let bouncer = Bouncer::start(&cluster).unwrap();
        (cluster, bouncer)
    });
    let (cluster, bouncer) = clusters.await.unwrap();
    let pooled = || Options { prepare: false, ..Options::default() };
    let deaf = PostgresStore::open(&bouncer.url("postgres"), pooled()).await.unwrap();
    assert_eq!(heard(&deaf).await, Heard::Deaf);
    let direct = Options { listen_url: Some(cluster.url("postgres")), ..pooled() };
    let hears = PostgresStore::open(&bouncer.url("postgres"), direct).await.unwrap();
    assert_eq!(heard(&hears).await, Heard::Hearing);
    deaf.tell(ready("q", 1)).await.unwrap();
    assert_eq!(heard(&hears).await, Heard::Wakes(ready("q", 1)));
    assert_eq!(deaf.beat(&["prune"]).await.unwrap().held, ["prune"]);
    assert_eq!(hears.beat(&["prune"]).await.unwrap().others, 1);
    deaf.close().await.unwrap();
    hears.close().await.unwrap();
}

#[tokio::test]
async fn a_sweep_finds_what_is_ready_and_notices_changed_settings() {
    let nodes = Nodes::new();
    let (a, b) = (nodes.join("a").await, nodes.join("b").await);
    let empty = b.sweep().await.unwrap();
    assert_eq!(empty.ready, []);
    for queue in ["later", "now", "paused", "ranked", "out"] {
        put_queue(&a, queue, QueueConfig::default()).await;
        if queue != "later" && queue != "ranked" {
            publish(&a, queue).await;
        }
    }
    let made = b.sweep().await.unwrap();
    assert_ne!(made.settings, empty.settings);
    let due = nodes.clock_now().plus(Millis::from_secs(60));
    for (queue, priority, run_at) in [("later", 0, Some(due)), ("ranked", 9, Some(due)), ("ranked", 1, None)]
    {
        let mut draft = Draft::new(name(queue), Payload::from_json("1").unwrap());
        (draft.priority, draft.run_at) = (priority, run_at);
        tell(&a, Command::Publish(draft.check().unwrap())).await;
    }
    tell(&a, Command::Pause { queue: name("paused"), paused: true }).await;
    assert_eq!(lease(&a, "out").await.len(), 1);
    assert_eq!(b.sweep().await.unwrap().ready, [name("now"), name("ranked")]);
    nodes.clock.advance(Millis::from_secs(60));
    assert_eq!(b.sweep().await.unwrap().ready, [name("later"), name("now"), name("ranked")]);

    let before = b.sweep().await.unwrap().settings;
    assert_eq!(b.sweep().await.unwrap().settings, before, "nothing has changed");
    put_queue(&a, "now", QueueConfig { max_attempts: 7, ..QueueConfig::default() }).await;
    let changed = b.sweep().await.unwrap().settings;
    assert_ne!(changed, before);
    put_queue(&a, "brief", QueueConfig::default()).await;
    tell(&a, Command::DeleteQueue(name("brief"))).await;
    put_queue(&a, "brief", QueueConfig::default()).await;
    tell(&a, Command::DeleteQueue(name("brief"))).await;
    assert_eq!(
        b.sweep().await.unwrap().settings,
        changed,
        "what came and went again is as if it had not been"
    );
}

#[tokio::test]
async fn a_dead_node_loses_what_only_it_could_settle_and_workers_keep_theirs() {
    let nodes = Nodes::new();
    let (a, b) = (nodes.join("a").await, nodes.join("b").await);
    put_queue(&a, "push", push_queue()).await;
    put_queue(&a, "pull", QueueConfig::default()).await;
    for queue in ["push", "push", "push", "pull"] {
        publish(&a, queue).await;
    }
    let [answered, received, alone] = lease(&a, "push").await.try_into().unwrap();
    let pulled = lease(&a, "pull").await.remove(0);
    let done = Outcome::Done { result: None, effect: None };
    tell(&a, settle(&answered, done.clone())).await;
    tell(&a, settle(&received, Outcome::Received)).await;
    publish(&b, "push").await;
    let own = lease(&b, "push").await.remove(0);

    a.abandon();
    nodes.clock.advance(NODE_LOST);
    assert_eq!(b.beat(&["rescue"]).await.unwrap().lost, [a.id()]);
    assert_eq!(b.take_back(a.id()).await.unwrap(), [name("push")]);
    let again = lease(&b, "push").await;
    assert_eq!(again.iter().map(|delivery| delivery.id).collect::<Vec<_>>(), [alone.id]);
    assert_eq!(again[0].attempt, alone.attempt, "no attempt is burned");
    assert!(again[0].token > alone.token);
    let stale = b.apply(vec![settle(&alone, done.clone())]).await.unwrap().remove(0);
    assert_eq!(stale.unwrap_err().code(), "stale_lease");
    for mine in [&received, &pulled, &own, &again[0]] {
        tell(&b, settle(mine, done.clone())).await;
        let job = b.job(mine.id).await.unwrap().unwrap();
        assert_eq!(job.progress.state, State::Completed, "a worker settles at any node");
    }
}

impl Nodes {
    fn clock_now(&self) -> Timestamp {
        semel_store::Clock::now(self.clock.as_ref())
    }
}
