//! What operators see: metrics as Prometheus reads them, the rules and the board that are shipped, and traces as a collector gets
//! them.

mod board;
mod busy;
mod collector;
mod exposed;
mod page;
mod prometheus;
mod promtool;
mod rules;
mod spans;
