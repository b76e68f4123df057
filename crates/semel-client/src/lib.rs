//! Semel for Rust applications.
//!
//! | to | use | feature |
//! |---|---|---|
//! | publish, look jobs up, wait for results | [`http::Client`] | `http` (default) |
//! | work on jobs, pulling them | `worker::Worker` | `worker` |
//! | work on jobs that come by webhook | `webhook::Webhook`, or `webhook::Verifier` alone | `webhook` |
//! | have effects happen once, by pull or by webhook | `ledger::Once` around a handler | `ledger` |
//! | publish and complete inside a PostgreSQL transaction of the application | `sql` | `tokio-postgres` or `sqlx` |
//!
//! A [`Publish`] is one wish, with a key from the moment it is made. Sending it again, by the client after a time-out or by
//! the application after a crash, is the same publish and gets the same job:
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use semel_client::{Publish, http::Client};
//!
//! let client = Client::builder("http://127.0.0.1:7477").api_key("sml_...").build()?;
//! let wish = Publish::new("orders", &serde_json::json!({ "order": 17 }))?.key("order-17");
//! let published = client.publish(&wish).await?;
//! println!("{} (new: {})", published.id, !published.deduplicated);
//! # Ok(())
//! # }
//! ```

#[cfg(any(feature = "webhook", feature = "worker"))]
mod delivery;
mod effect;
#[cfg(any(feature = "webhook", feature = "worker"))]
mod handler;
#[cfg(feature = "http")]
pub mod http;
#[cfg(all(feature = "ledger", any(feature = "webhook", feature = "worker")))]
pub mod ledger;
#[cfg(any(feature = "webhook", feature = "worker"))]
mod outcome;
mod overrides;
mod publish;
mod retry;
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
pub mod sql;
mod state;
mod time;
#[cfg(feature = "webhook")]
pub mod webhook;
#[cfg(feature = "worker")]
pub mod worker;

#[cfg(any(feature = "webhook", feature = "worker"))]
pub use delivery::Delivery;
pub use effect::{Effect, Receipt};
#[cfg(any(feature = "webhook", feature = "worker"))]
pub use handler::Handler;
#[cfg(any(feature = "webhook", feature = "worker"))]
pub use outcome::{Outcome, Scope};
pub use publish::{NotJson, Publish};
pub use retry::{Jitter, Retry, Strategy};
pub use state::State;
