//! Semel's server: everything between a socket and a [`semel_store::Store`].
//!
//! `api` speaks HTTP, `delivery` brings jobs to workers, `upkeep` does what only time brings about, `net` owns the
//! sockets. [`service`] puts them together. The store is given: nothing here knows which one it is.

pub mod advice;
pub mod api;
pub mod config;
pub mod credentials;
pub mod delivery;
pub mod journal;
pub mod metrics;
pub mod net;
pub mod news;
pub mod peers;
pub mod service;
pub mod stop;
pub mod telemetry;
pub mod time;
pub mod upkeep;
