//! The relay: carries rows of an outbox to the server.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use semel_client::http::Client;
//! use semel_outbox::relay::Relay;
//!
//! let client = Client::builder("http://127.0.0.1:7477").api_key("sml_...").build()?;
//! let relay = Relay::open("postgres://shop@db/shop", &client).await?;
//! let tally = relay.run(async { tokio::signal::ctrl_c().await.expect("signals can be listened for") }).await;
//! println!("{} rows were carried", tally.carried);
//! # Ok(())
//! # }
//! ```
//!
//! Each round claims rows, publishes them in batches, and deletes those that the server has. On PostgreSQL and MySQL a claim
//! is a row lock (`FOR UPDATE SKIP LOCKED`) in a transaction that lasts as long as the publish: a relay that dies lets
//! go at once, and no clock is compared with another. SQLite has one writer, so there relays take turns, and nobody
//! else waits for the network.

mod carry;
mod error;
mod holds;
mod lane;
mod mark;
mod mysql;
mod outbox;
mod postgres;
mod row;
mod source;
mod sqlite;
mod tally;

use std::time::Duration;

use semel_client::http::Client;

pub use error::Error;
pub use outbox::{Dead, Depth, Outbox};
pub use tally::Tally;

/// How long one publish may be tried. The rows stay claimed as long, so it is short; the next round tries again.
const PUBLISH_DEADLINE: Duration = Duration::from_secs(10);

/// Rows claimed at once: as many as the server takes in one request.
const BATCH: u32 = 1000;

/// A relay of one outbox to one server.
#[derive(Debug, Clone)]
pub struct Relay {
    outbox: Outbox,
    client: Client,
    batch: u32,
    lanes: usize,
    poll: Duration,
}

impl Relay {
    /// From the outbox at this address ([`Outbox::open`]) to this client's server.
    pub async fn open(database: &str, client: &Client) -> Result<Self, Error> {
        Ok(Self::new(&Outbox::open(database).await?, client))
    }

    /// From this outbox to this client's server.
    pub fn new(outbox: &Outbox, client: &Client) -> Self {
        let client = client.with_deadline(PUBLISH_DEADLINE);
        Self { outbox: outbox.clone(), client, batch: BATCH, lanes: 3, poll: Duration::from_secs(1) }
    }

    /// The outbox it carries from.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// How many rows are claimed at once (1000).
    #[must_use]
    pub fn batch(mut self, rows: u32) -> Self {
        self.batch = rows.clamp(1, BATCH);
        self
    }

    /// How many rounds go on at once (3): while one waits for the server, another claims and a third deletes. On SQLite it is
    /// always one.
    #[must_use]
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// How often to look for rows that nobody announced (1 s). PostgreSQL announces them.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll.max(Duration::from_millis(10));
        self
    }
}
