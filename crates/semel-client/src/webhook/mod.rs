//! Jobs that come by webhook.
//!
//! [`Verifier`] says whether a request is from the queue it claims to be from, and reads the delivery. [`Webhook`] is that
//! together with a [`Handler`](crate::Handler) as a service of tower, for axum or any other server:
//!
//! ```no_run
//! use semel_client::{Delivery, Outcome, webhook::{Verifier, Webhook}};
//!
//! async fn charge(delivery: Delivery) -> Outcome {
//!     Outcome::done_with(&format!("charged {}", delivery.key()))
//! }
//!
//! let verifier = Verifier::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
//! let router: axum::Router = axum::Router::new().route_service("/hooks/charge", Webhook::new(verifier, charge));
//! ```
//!
//! While a secret rotates, give both; the order does not matter.

mod answer;
mod service;
mod verify;

pub use service::Webhook;
pub use verify::{Rejection, Verifier};
