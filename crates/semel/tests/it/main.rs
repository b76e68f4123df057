//! The command line as people and scripts meet it: the real binary, its output and its exit codes.

mod alerts;
mod bench;
mod client;
mod config;
mod dev;
mod doctor;
mod help;
mod hook;
mod listen;
mod logs;
mod moving;
mod odds;
mod pages;
mod postgres;
mod relay;
mod remote;
mod run;
mod serve;
mod server;
mod store;
mod tail;
mod tour;
