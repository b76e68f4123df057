//! Publishing to a real server, and what it answers.

use std::time::Duration;

use semel_client::http::{Code, Error};
use semel_client::worker::Worker;
use semel_client::{Delivery, Outcome, Publish, State};
use semel_cluster::{Proxy, Seen, Side, Trap};
use serde_json::json;

use crate::world::{World, within};

fn order(number: u32) -> Publish {
    let payload = json!({ "order": number });
    Publish::new("orders", &payload).unwrap().key(format!("order-{number}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_wish_is_one_job_however_often_it_is_sent() {
    let world = World::start().await;
    let client = world.client();
    let unnamed = Publish::new("orders", &json!({ "order": 1 })).unwrap();
    let first = client.publish(&unnamed).await.unwrap();
    assert_eq!((first.deduplicated, first.state, first.queue.as_str()), (false, State::Pending, "orders"));
    let again = client.publish(&unnamed).await.unwrap();
    assert_eq!((again.deduplicated, &again.id, again.created_at), (true, &first.id, first.created_at));
    let same = Publish::new("orders", &json!({ "order": 1 })).unwrap();
    assert_ne!(client.publish(&same).await.unwrap().id, first.id, "another wish is another job");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_was_asked_for_is_there() {
    let world = World::start().await;
    let client = world.client();
    let wish = Publish::of_json("orders", r#"{"a": 1.10}"#).unwrap();
    let wish =
        wish.key("k").group("g").priority(-3).delay(Duration::from_secs(90)).metadata("origin", "till");
    let wish = wish.max_attempts(2).timeout(Duration::from_secs(5)).window(Duration::from_secs(60));
    let published = client.publish(&wish).await.unwrap();
    let job = client.job(&published.id).await.unwrap();
    assert_eq!(job.payload.unwrap().get(), r#"{"a": 1.10}"#);
    assert_eq!((job.idempotency_key.as_deref(), job.group.as_deref()), (Some("k"), Some("g")));
    assert_eq!((job.priority, job.max_attempts, job.metadata["origin"].as_str()), (-3, 2, "till"));
    assert_eq!(job.scheduled_for, job.created_at + Duration::from_secs(90));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_does_not_make_a_second_job() {
    let world = World::start().await;
    let proxy = Proxy::to(world.address).unwrap();
    let client = World::client_of(proxy.address());
    client.publish(&order(1)).await.unwrap();
    // The server has committed when it answers, and this answer never arrives.
    let lost = Seen::Bytes(b"HTTP/1.1 201".to_vec());
    proxy.cut_when(Trap { from: Side::Server, when: lost, deliver: false });
    let published = within(client.publish(&order(2))).await.unwrap();
    assert!(proxy.wait_until_sprung(Duration::ZERO), "the answer was to be lost");
    assert!(published.deduplicated, "it was the second try that was answered");
    let job = client.job(&published.id).await.unwrap();
    assert_eq!((job.duplicates, job.idempotency_key.as_deref()), (1, Some("order-2")));
    drop(proxy);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_batch_does_not_make_second_jobs() {
    let world = World::start().await;
    let proxy = Proxy::to(world.address).unwrap();
    let lost = Seen::Bytes(b"HTTP/1.1 200".to_vec());
    proxy.cut_when(Trap { from: Side::Server, when: lost, deliver: false });
    let wishes: Vec<_> = (0..50).map(order).collect();
    let answers = within(World::client_of(proxy.address()).publish_all(&wishes)).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|published| published.deduplicated)));
    let jobs: std::collections::HashSet<_> = answers.into_iter().map(|answer| answer.unwrap().id).collect();
    assert_eq!(jobs.len(), 50);
    drop(proxy);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_a_batch_succeeds_or_fails_for_itself() {
    let world = World::start().await;
    let client = world.client();
    let mail = Publish::new("mails", &1).unwrap().key("mail-1");
    let wrong = order(2).priority(1000).option("colour", json!("red"));
    let answers = client.publish_all(&[order(1), mail, wrong, order(1), order(3)]).await;
    let queues: Vec<_> = answers.iter().flatten().map(|published| published.queue.as_str()).collect();
    assert_eq!(queues, ["orders", "mails", "orders", "orders"]);
    let problem = answers[2].as_ref().unwrap_err().problem().unwrap();
    let fields: Vec<_> = problem.violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!((&problem.code, fields), (&Code::Invalid, vec!["colour", "priority"]));
    let (first, twin) = (answers[0].as_ref().unwrap(), answers[3].as_ref().unwrap());
    assert_eq!((&first.id, first.deduplicated, twin.deduplicated), (&twin.id, false, true));
    assert!(client.publish_all(&[]).await.is_empty());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collision_says_where_the_payloads_differ() {
    let world = World::start().await;
    let queue = json!({ "delivery": { "type": "pull" }, "onCollision": "reject" });
    world.put("/v1/queues/orders", queue).await;
    let client = world.client();
    let first = client.publish(&order(1)).await.unwrap();
    let other = Publish::new("orders", &json!({ "order": 2 })).unwrap().key("order-1");
    let error = client.publish(&other).await.unwrap_err();
    let Error::Refused(problem) = error else { panic!("{error:?}") };
    assert_eq!((problem.code, problem.status), (Code::KeyCollision, 422));
    assert_eq!((problem.pointers, problem.job), (vec!["/order".to_owned()], Some(first.id)));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_may_wait_for_the_result_and_so_may_its_second_try() {
    let world = World::start().await;
    let client = world.client();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let double = async |delivery: Delivery| {
        let order = delivery.payload::<serde_json::Value>().unwrap()["order"].as_u64().unwrap();
        Outcome::done_with(&(order * 2))
    };
    let worker = Worker::new(&client, "orders").run(double, async { drop(stopped.await) });
    let worker = tokio::spawn(worker);
    for _ in 0..2 {
        let job = within(client.publish_and_wait(&order(21), Duration::from_secs(60))).await.unwrap();
        assert_eq!((job.state, job.result::<u64>().unwrap()), (State::Completed, Some(42)));
        assert!(job.completed_at.unwrap() >= job.created_at);
    }
    drop(stop);
    assert_eq!(worker.await.unwrap().unwrap().done, 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_over_returns_the_job_as_it_is() {
    let world = World::start().await;
    let client = world.client();
    let job = client.publish_and_wait(&order(1), Duration::from_millis(50)).await.unwrap();
    assert_eq!((job.state, job.result::<u64>().unwrap()), (State::Pending, None));
    let missing = client.job("job_0000000000001").await.unwrap_err();
    assert_eq!(missing.problem().unwrap().code, Code::JobNotFound);
    let odd = client.job("no/job?").await.unwrap_err();
    assert_eq!(odd.problem().unwrap().status, 404, "a name is one segment of a path");
    world.end().await;
}
