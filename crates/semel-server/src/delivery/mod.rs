//! Bringing jobs to their workers.

mod attempt;
pub mod call;
mod connect;
pub mod dial;
pub mod dispatch;
mod dispatcher;
pub mod endpoint;
pub mod guard;
pub mod message;
mod pool;
pub mod resolve;
pub mod sign;
mod target;
pub mod tls;
pub mod told;
pub mod trace;
