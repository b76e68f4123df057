//! An application beside a store: what it publishes and completes in transactions of its own.

use std::sync::Arc;
use std::time::Duration;

use semel_cluster::Database;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::queue::QueueConfig;
use semel_store::{Command, Reply, Store};
use semel_store_postgres::{Options, PostgresStore};
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, Row};

use crate::harness::{connect, database};

/// Longer than anything takes that is not stuck.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A node and the database that it shares with an application. Both go by the database's clock.
pub(crate) struct Shop {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) database: Database<'static>,
}

impl Shop {
    /// With a queue `orders`.
    pub(crate) async fn open() -> Self {
        let database = database();
        let options = Options { connections: 4, days_ahead: 0, ..Options::default() };
        let store = Arc::new(PostgresStore::open(database.url(), options).await.unwrap());
        let shop = Self { store, database };
        shop.queue("orders", |_| {}).await;
        shop
    }

    /// Makes or changes a queue.
    pub(crate) async fn queue(&self, name: &str, change: impl FnOnce(&mut QueueConfig)) {
        let mut config = QueueConfig::default();
        change(&mut config);
        let put = Command::PutQueue { name: queue(name), config: Box::new(config) };
        assert_eq!(self.tell(put).await, Reply::Done);
    }

    /// Applies one command that must be granted.
    pub(crate) async fn tell(&self, command: Command) -> Reply {
        self.store.apply(vec![command]).await.unwrap().remove(0).unwrap()
    }

    /// A connection of the application.
    pub(crate) async fn app(&self) -> Client {
        connect(self.database.url()).await
    }

    /// What can be leased of a queue now.
    pub(crate) async fn lease(&self, name: &str) -> Vec<Delivery> {
        self.store.lease(LeaseRequest::new(queue(name), 10, None).unwrap()).await.unwrap()
    }

    /// Publishes a job and leases it.
    pub(crate) async fn take(&self, name: &str) -> Delivery {
        publish(&self.app().await, name, "1", None).await.unwrap();
        self.lease(name).await.remove(0)
    }

    /// Waits until somebody waits for a lock.
    pub(crate) async fn somebody_waits(&self) {
        let look = self.app().await;
        let waits = "SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
                                     WHERE a.datname = current_database() AND NOT l.granted)";
        let looking = async {
            while !look.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, looking).await.expect("somebody waits");
    }
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::try_from(name).unwrap()
}

/// Publishes as an application does: the id of the job, and whether it was there before.
pub(crate) async fn publish(
    app: &Client,
    queue: &str,
    payload: &str,
    key: Option<&str>,
) -> Result<(String, bool), tokio_postgres::Error> {
    let row =
        app.query_one("SELECT * FROM semel.publish($1, $2::text, $3)", &[&queue, &payload, &key]).await?;
    Ok((row.get("id"), row.get("deduplicated")))
}

/// Completes as a worker does.
pub(crate) async fn complete(app: &Client, delivery: &Delivery) -> Result<Row, tokio_postgres::Error> {
    let (job, lease) = (delivery.id.to_string(), delivery.token.to_string());
    app.query_one("SELECT * FROM semel.complete($1::text, $2)", &[&job, &lease]).await
}

/// The state that an error has.
pub(crate) fn state(error: &tokio_postgres::Error) -> &str {
    error.code().unwrap_or_else(|| panic!("{error}")).code()
}
