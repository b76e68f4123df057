//! A worker that died left its job on its list, and puts it back when it starts again.

use std::path::Path;
use std::time::Duration;

use other_queues::redis_list::Queue;
use other_queues::shop::{Shop, charges};
use redis::AsyncConnectionConfig;
use semel_cluster::Redis;
use semel_ledger::handler::{Disposition, Job, Receipt};
use semel_ledger::{Moment, Until};
use serde_json::value::RawValue;

use crate::process::{arguments, killed_before_the_ack, wait_to_be_killed};
use crate::{ORDER, receipt};

const PATIENCE: Duration = Duration::from_secs(5);

async fn queue(url: &str) -> Queue {
    let client = redis::Client::open(url).unwrap();
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    Queue::of(connection, "charges", "worker-1")
}

fn order() -> Box<RawValue> {
    RawValue::from_string(String::from_utf8(ORDER.to_vec()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_redis_list_a_killed_worker_charges_once() {
    let (redis, home) = (Redis::start().unwrap(), tempfile::tempdir().unwrap());
    let database = home.path().join("shop.db");
    let mut queue = queue(&redis.url()).await;
    queue.push(Some("order-9482"), &order()).await.unwrap();

    killed_before_the_ack("redis_list::worker", &[&redis.url(), database.to_str().unwrap()]);
    assert_eq!(charges(&database, "9482").unwrap(), 1);

    let shop = Shop::open(&database).await.unwrap();
    assert_eq!(queue.recover().await.unwrap(), 1);
    let told = queue.work_one(PATIENCE, &async |job: &Job<'_>| shop.charge(job).await).await.unwrap();
    assert_eq!(receipt(&told.unwrap()), Receipt::Replayed);
    assert_eq!(charges(&database, "9482").unwrap(), 1);
    assert_eq!(redis.command(&["KEYS", "*"]).unwrap(), "", "nothing is left to do");
}

#[tokio::test]
async fn a_job_that_somebody_else_is_at_comes_again() {
    let redis = Redis::start().unwrap();
    let mut queue = queue(&redis.url()).await;
    queue.push(Some("order-9482"), &order()).await.unwrap();
    let soon = Until { at: Moment::from_millis(0), remaining: Duration::from_millis(20) };
    let busy = async |_: &Job<'_>| Disposition::Defer { until: soon };
    let told = queue.work_one(PATIENCE, &busy).await.unwrap();
    assert_eq!(told, Some(Disposition::Defer { until: soon }));
    let done = async |_: &Job<'_>| Disposition::Ack { receipt: Receipt::Applied, result: None };
    // It is looked for before each wait, so a short one finds it as soon as it is due.
    while queue.work_one(Duration::from_millis(10), &done).await.unwrap().is_none() {}
    assert_eq!(redis.command(&["KEYS", "*"]).unwrap(), "", "nothing is left to do");
}

#[tokio::test]
async fn a_job_without_a_key_is_given_up() {
    let (redis, home) = (Redis::start().unwrap(), tempfile::tempdir().unwrap());
    let shop = Shop::open(&home.path().join("shop.db")).await.unwrap();
    let mut queue = queue(&redis.url()).await;
    queue.push(None, &order()).await.unwrap();
    let told = queue.work_one(PATIENCE, &async |job: &Job<'_>| shop.charge(job).await).await.unwrap();
    assert!(matches!(told, Some(Disposition::Fail { retryable: false, .. })), "{told:?}");
    assert_eq!(redis.command(&["LLEN", &queue.dead()]).unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the worker of another test"]
async fn worker() {
    let Some(arguments) = arguments() else { return };
    let shop = Shop::open(Path::new(&arguments[1])).await.unwrap();
    let mut queue = queue(&arguments[0]).await;
    queue.work(async |job: &Job<'_>| wait_to_be_killed(shop.charge(job).await).await).await.unwrap();
}
