//! Two nodes in one process: what one does is known at the other.

use std::sync::Arc;
use std::time::Duration;

use semel_core::ids::JobId;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::records::Scope;
use semel_core::time::Millis;
use semel_store::shared::{Exposure, NODE_LOST, ROLE_SPAN, Shared as _};
use semel_store::{Command, ManualClock, MemoryStore, Store};
use serde_json::json;

use super::hub::{Hub, Member};
use super::{Pace, Peers, Tasks};
use crate::service::{AuthMode, Options};
use crate::time::ManualAlarm;
use crate::upkeep::stage::{START, Stage, name};
use crate::upkeep::{self, RESCUE};

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Longer than any test lasts.
const NEVER: Duration = Duration::from_secs(3600);

/// Two nodes on one store.
struct Two {
    hub: Arc<Hub>,
    alarm: Arc<ManualAlarm>,
    a: Node,
    b: Node,
}

struct Node {
    stage: Stage,
    touch: Tasks,
    upkeep: upkeep::Roles,
}

impl Node {
    async fn start(store: Arc<dyn Store>, member: Arc<Member>, alarm: Arc<ManualAlarm>) -> Self {
        let pace = Pace {
            beat: Duration::from_millis(5),
            sweep: NEVER,
            sweep_deaf: Duration::from_millis(5),
            gather: Duration::from_millis(1),
            crowd: Duration::from_millis(5),
        };
        let options = Options { auth: AuthMode::Keys, poll: NEVER, pace, ..Options::default() };
        let mut stage = Stage::on(store, Some(member), alarm, options).await;
        let upkeep = upkeep::start(&stage.service, stage.suspects.take().unwrap());
        let touch = Peers::start(&stage.service);
        Self { stage, touch, upkeep }
    }

    /// Ends as a server does, but for the store, which is the other's, too.
    async fn stop(self) {
        self.stage.stopper.stop();
        self.upkeep.stop().await;
        self.touch.stop().await;
    }

    fn holds(&self, role: &str) -> bool {
        self.stage.service.peers.roles().holds(role)
    }

    /// Polls for a job with the key of this test.
    async fn poll(&self) -> serde_json::Value {
        let body = Some(json!({ "wait": 30 }));
        let (status, answer) = self.stage.ask_with("key", "POST", "/v1/queues/q/lease", body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

impl Two {
    /// Two nodes that know of each other, a queue, and an API key.
    async fn start() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let alarm = Arc::new(ManualAlarm::new(clock.clone()));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock));
        let hub = Hub::over(store.clone());
        let a = Node::start(store.clone(), hub.join(1), alarm.clone()).await;
        until(|| a.holds(RESCUE)).await;
        let b = Node::start(store, hub.join(2), alarm.clone()).await;
        a.stage.queue("q", QueueConfig::default()).await;
        a.stage.grant("key", vec![Scope::Admin], "*").await;
        let two = Self { hub, alarm, a, b };
        for node in [&two.a, &two.b] {
            node.stage.service.keyring.reload(node.stage.service.store.as_ref()).await.unwrap();
        }
        two.know_each_other().await;
        two
    }

    /// Until each has heard of the other: what is told before goes nowhere.
    async fn know_each_other(&self) {
        for node in [&self.a, &self.b] {
            until(|| node.stage.service.news.outbox.is_open()).await;
        }
    }

    async fn stop(self) {
        self.a.stop().await;
        self.b.stop().await;
    }
}

async fn until(is: impl Fn() -> bool) {
    let look = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(DEADLINE, look).await.expect("what the test waits for does not happen");
}

/// Publishes at one node once somebody polls at the other.
async fn publish_to_a_poll(two: &Two) {
    let bell = two.b.stage.service.news.bells.of(&name("q"));
    let publish = async {
        until(|| Arc::strong_count(&bell) >= 3).await;
        two.a.stage.publish("q", None).await
    };
    let (answer, id) = tokio::join!(two.b.poll(), publish);
    assert_eq!(answer["jobs"][0]["id"], id.to_string());
}

#[tokio::test]
async fn a_job_that_is_published_at_one_node_wakes_a_poll_at_the_other() {
    let two = Two::start().await;
    publish_to_a_poll(&two).await;
    two.stop().await;
}

#[tokio::test]
async fn a_node_that_commits_often_is_known_at_the_other_until_it_rests() {
    let two = Two::start().await;
    let shared_with = |node: &Node| node.stage.service.commit.shared_with();
    let commits = || two.a.stage.service.commit.commits();
    let busy = async {
        loop {
            two.a.stage.publish("q", None).await;
        }
    };
    let known = async {
        until(|| shared_with(&two.b) == 1).await;
        // By then it would have heard itself, and go on hearing itself while it is busy.
        let then = commits();
        until(|| commits() > then + 500).await;
        until(|| shared_with(&two.a) == 0).await;
    };
    tokio::select! {
        () = known => {}
        () = busy => {}
    }
    until(|| shared_with(&two.b) == 0).await;
    two.stop().await;
}

#[tokio::test]
async fn a_node_that_hears_nobody_looks_for_itself() {
    let two = Two::start().await;
    two.hub.deafen(2);
    publish_to_a_poll(&two).await;
    two.a.stage.grant("late", vec![Scope::Read], "*").await;
    let keyring = &two.b.stage.service.keyring;
    until(|| keyring.find("late", START).is_some()).await;
    let before = *two.b.stage.service.news.queues.borrow();
    two.a.stage.queue("q", QueueConfig { max_attempts: 7, ..QueueConfig::default() }).await;
    until(|| *two.b.stage.service.news.queues.borrow() > before).await;
    two.stop().await;
}

#[tokio::test]
async fn queues_keys_and_tasks_that_change_at_one_node_are_known_at_the_other() {
    let two = Two::start().await;
    let (here, there) = (&two.a.stage, &two.b.stage.service);
    here.grant("new", vec![Scope::Read], "*").await;
    until(|| there.keyring.find("new", START).is_some()).await;
    here.submit(Command::DeleteApiKey("new".into())).await;
    until(|| there.keyring.find("new", START).is_none()).await;

    let before = *there.news.queues.borrow();
    here.submit(Command::Pause { queue: name("q"), paused: true }).await;
    until(|| *there.news.queues.borrow() > before).await;
    let bell = there.news.bells.of(&name("q"));
    here.submit(Command::DeleteQueue(name("q"))).await;
    until(|| Arc::strong_count(&bell) == 1).await;

    let before = *there.news.tasks.borrow();
    here.queue("q", QueueConfig::default()).await;
    let schedule = json!({ "queue": "q", "cron": "* * * * *", "payload": 1 });
    let (status, _) = here.ask_with("key", "PUT", "/v1/schedules/s", Some(schedule)).await;
    assert_eq!(status, 201);
    until(|| *there.news.tasks.borrow() > before).await;
    two.stop().await;
}

#[tokio::test]
async fn a_role_stays_with_its_node_until_that_dies() {
    let two = Two::start().await;
    two.alarm.advance(ROLE_SPAN.minus(Millis::from_millis(1)));
    let beats = two.hub.beats(2);
    until(|| two.hub.beats(2) > beats + 1).await;
    assert!(two.a.holds(RESCUE) && !two.b.holds(RESCUE));

    // Dead, as far as anybody can tell: its tasks end without a word.
    two.hub.leases(1, &name("q"));
    let Two { a, b, alarm, hub } = two;
    a.touch.running.iter().for_each(|(_, task)| task.abort());
    let bell = b.stage.service.news.bells.of(&name("q"));
    alarm.advance(NODE_LOST);
    until(|| b.holds(RESCUE)).await;
    tokio::time::timeout(DEADLINE, bell.notified())
        .await
        .expect("its leases are taken back, and the queue is rung");
    let nodes = hub.join(3).nodes().await.unwrap();
    let seen: Vec<_> = nodes.iter().map(|node| (node.id.0, node.lost, !node.roles.is_empty())).collect();
    assert_eq!(seen, [(1, true, false), (2, false, true)]);
    b.stop().await;
}

#[tokio::test]
async fn a_node_that_stops_leaves_its_roles_at_once() {
    let Two { a, b, .. } = Two::start().await;
    assert!(!b.holds(RESCUE));
    a.stop().await;
    until(|| b.holds(RESCUE)).await;
    b.stop().await;
}

#[tokio::test]
async fn a_node_that_is_alone_tells_nobody() {
    let clock = Arc::new(ManualClock::at(START));
    let alarm = Arc::new(ManualAlarm::new(clock.clone()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock));
    let hub = Hub::over(store.clone());
    let node = Node::start(store, hub.join(1), alarm).await;
    until(|| node.holds(RESCUE)).await;
    node.stage.queue("q", QueueConfig::default()).await;
    node.stage.publish("q", None).await;
    node.stop().await;
    assert_eq!(hub.told(), 0);
}

#[tokio::test]
async fn the_nodes_are_shown() {
    let two = Two::start().await;
    let (status, answer) = two.b.stage.ask_with("key", "GET", "/v1/nodes", None).await;
    assert_eq!(status, 200, "{answer}");
    let shown = answer["nodes"].as_array().unwrap();
    let brief: Vec<_> = shown.iter().map(|node| (&node["name"], &node["this"], &node["lost"])).collect();
    let (no, yes) = (json!(false), json!(true));
    assert_eq!(brief, [(&json!("node-1"), &no, &no), (&json!("node-2"), &yes, &no)]);
    assert_eq!(shown[0]["roles"], json!(["prune", "replays", "rescue", "schedules"]));
    assert_eq!(shown[1]["roles"], json!([]));
    two.stop().await;
}

#[tokio::test]
async fn jobs_that_may_have_been_done_unknown_to_the_store_are_marked() {
    let two = Two::start().await;
    let (stage, now) = (&two.a.stage, two.a.stage.now());
    let old = stage.publish("q", Some("old")).await;
    let mut draft = Draft::new(name("q"), Payload::from_json("1").unwrap());
    draft.delay = Some(Millis::from_secs(60));
    let not_due = stage.service.commit.publish(draft.check().unwrap()).await.unwrap().id;
    let exposure = Exposure { since: now, until: now.plus(Millis::from_secs(1)), newest: not_due };
    two.hub.expose(exposure);
    let new = stage.publish("q", Some("new")).await;
    two.alarm.advance(Millis::from_secs(60));
    let body = Some(json!({ "max": 10 }));
    let (_, leased) = two.b.stage.ask_with("key", "POST", "/v1/queues/q/lease", body).await;
    let jobs = leased["jobs"].as_array().unwrap();
    let mark_of = |id: JobId| {
        let job = jobs.iter().find(|job| job["id"] == id.to_string()).expect("it was leased");
        job.get("possiblyApplied")
    };
    assert_eq!(mark_of(old), Some(&json!(true)), "it may have been delivered and done");
    assert_eq!(mark_of(not_due), None, "its time had not come");
    assert_eq!(mark_of(new), None, "it came later");
    let (_, answer) = two.b.stage.ask_with("key", "GET", "/v1/nodes", None).await;
    let exposed = json!({ "since": "2026-11-15T12:00:00.000Z", "until": "2026-11-15T12:00:01.000Z" });
    assert_eq!(answer["exposure"], exposed);
    two.stop().await;
}
