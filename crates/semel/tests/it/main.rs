//! The command line as people and scripts meet it: the real binary, its output and its exit codes.

mod bench;
mod client;
mod dev;
mod help;
mod moving;
mod postgres;
mod relay;
mod run;
mod serve;
mod server;
mod store;
mod tour;
