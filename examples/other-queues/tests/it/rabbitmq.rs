//! RabbitMQ delivers again what was not acknowledged when a connection ends.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use lapin::options::BasicGetOptions;
use lapin::{Channel, Connection, ConnectionProperties};
use other_queues::rabbitmq::Queue;
use other_queues::shop::{Shop, charges};
use semel_cluster::RabbitMq;
use semel_ledger::handler::{Disposition, Job, Receipt};
use semel_ledger::{Moment, Until};

use crate::process::{arguments, killed_before_the_ack, wait_to_be_killed};
use crate::{ORDER, receipt};

async fn connected(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_rabbitmq_a_killed_worker_charges_once() {
    let (broker, home) = (RabbitMq::start().unwrap(), tempfile::tempdir().unwrap());
    let database = home.path().join("shop.db");
    let (connection, channel) = connected(&broker.url()).await;
    let queue = Queue::declare(channel.clone(), "charges").await.unwrap();
    queue.publish("order-9482", ORDER).await.unwrap();
    // A publisher that heard nothing publishes again, under the same key.
    queue.publish("order-9482", ORDER).await.unwrap();

    killed_before_the_ack("rabbitmq::worker", &[&broker.url(), database.to_str().unwrap()]);
    assert_eq!(charges(&database, "9482").unwrap(), 1);

    let (shop, mut consumer) = (Shop::open(&database).await.unwrap(), queue.consume().await.unwrap());
    let charge = async |job: &Job<'_>| shop.charge(job).await;
    for delivery in ["redelivered", "published twice"] {
        let told = queue.work_one(&mut consumer, &charge).await.unwrap().unwrap();
        assert_eq!(receipt(&told), Receipt::Replayed, "{delivery}");
    }
    assert_eq!(charges(&database, "9482").unwrap(), 1);

    // A delivery that somebody else is at comes again.
    let soon = Until { at: Moment::from_millis(0), remaining: Duration::from_millis(20) };
    queue.publish("order-9482", ORDER).await.unwrap();
    let busy = async |_: &Job<'_>| Disposition::Defer { until: soon };
    let told = queue.work_one(&mut consumer, &busy).await.unwrap();
    assert_eq!(told, Some(Disposition::Defer { until: soon }));
    let told = queue.work_one(&mut consumer, &charge).await.unwrap().unwrap();
    assert_eq!(receipt(&told), Receipt::Replayed);

    // The same key for something else is nobody's to retry: it is with the dead letters.
    queue.publish("order-9482", br#"{"order": "9482", "cents": 9999}"#).await.unwrap();
    let told = queue.work_one(&mut consumer, &charge).await.unwrap().unwrap();
    assert!(
        matches!(&told, Disposition::Fail { error, retryable: false } if error.contains("cents")),
        "{told:?}"
    );
    let dead = loop {
        let dead = channel.basic_get(queue.dead().into(), BasicGetOptions { no_ack: true }).await.unwrap();
        if let Some(dead) = dead {
            break dead;
        }
    };
    assert!(dead.delivery.data.ends_with(b"9999}"));

    connection.close(200, "done".into()).await.unwrap();
    nothing_is_left_of(broker);
}

/// RabbitMQ takes seconds to start, so that it ends as it should is tested here and not by itself.
fn nothing_is_left_of(broker: RabbitMq) {
    let (directory, address) = (broker.directory().to_owned(), broker.address());
    drop(broker);
    assert!(!directory.exists());
    TcpStream::connect(address).unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the worker of another test"]
async fn worker() {
    let Some(arguments) = arguments() else { return };
    let shop = Shop::open(Path::new(&arguments[1])).await.unwrap();
    let (_connection, channel) = connected(&arguments[0]).await;
    let queue = Queue::declare(channel, "charges").await.unwrap();
    queue.work(async |job: &Job<'_>| wait_to_be_killed(shop.charge(job).await).await).await.unwrap();
}
