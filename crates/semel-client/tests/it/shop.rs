//! A database with Semel's schema in it, a node, and an application's table.

use std::time::Duration;

use semel_client::sql::Draft;
use semel_cluster::{Database, Shared, Template};
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::queue::{OnCollision, QueueConfig};
use semel_store::{Command, Store, StoreError};
use semel_store_postgres::{MIGRATIONS, Options, PostgresStore};

pub(crate) struct Shop {
    pub(crate) store: PostgresStore,
    pub(crate) database: Database<'static>,
}

impl Shop {
    /// With a queue `orders` that rejects collisions, and a table `charges`.
    pub(crate) async fn open() -> Self {
        let content: String = MIGRATIONS.iter().map(|migration| migration.sql).collect();
        let template = Template { name: "client", content: &content };
        let cluster = Shared::get().expect("a PostgreSQL cluster starts");
        let database = cluster.database::<StoreError>(&template, prepare).expect("a database is made");
        database.sql("CREATE TABLE charges (order_id integer PRIMARY KEY)").unwrap();
        let options = Options { connections: 2, days_ahead: 0, ..Options::default() };
        let store = PostgresStore::open(database.url(), options).await.unwrap();
        let config = QueueConfig { on_collision: OnCollision::Reject, ..QueueConfig::default() };
        let put = Command::PutQueue { name: orders(), config: Box::new(config) };
        store.apply(vec![put]).await.unwrap().remove(0).unwrap();
        Self { store, database }
    }

    /// What can be leased now.
    pub(crate) async fn lease(&self) -> Vec<Delivery> {
        self.store.lease(LeaseRequest::new(orders(), 10, None).unwrap()).await.unwrap()
    }

    /// How many charges were committed.
    pub(crate) fn charges(&self) -> String {
        self.database.sql("SELECT count(*) FROM charges").unwrap()
    }
}

fn prepare(url: &str) -> Result<(), StoreError> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(semel_store_postgres::migrate(url)).map(drop)
}

fn orders() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

/// A publish with everything that can be said.
pub(crate) fn full_draft() -> Draft {
    Draft::of_json("orders", r#"{"order": 17}"#)
        .key("order-17")
        .delay(Duration::ZERO)
        .priority(7)
        .group("tenant 4")
        .metadata("b", "1")
        .metadata("a", "2")
        .max_attempts(3)
        .timeout(Duration::from_secs(90))
        .window(Duration::from_millis(1500))
        .publisher("till 4")
}

/// That a delivery is what [`full_draft`] asked for.
pub(crate) fn assert_is_full_draft(delivery: &Delivery) {
    let spec = &delivery.spec;
    assert_eq!(&spec.payload.as_ref().unwrap().bytes()[..], br#"{"order": 17}"#);
    assert_eq!(spec.key.as_ref().unwrap().as_str(), "order-17");
    assert_eq!((spec.priority.get(), spec.group.as_ref().unwrap().as_str()), (7, "tenant 4"));
    assert_eq!(spec.metadata, [("b".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())]);
    assert_eq!((spec.overrides.max_attempts, spec.overrides.window.unwrap().millis()), (Some(3), 1500));
}
