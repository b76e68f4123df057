//! The client against a real database and a real server, over real sockets.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod once;
mod page;
mod patience;
mod processes;
mod publishing;
mod pushed;
mod scripted;
mod secure;
mod shop;
mod with_sqlx;
mod with_tokio_postgres;
mod working;
mod world;
