//! The command line as people and scripts meet it: the real binary, its output and its exit codes.

mod bench;
mod help;
mod run;
mod store;
mod tour;
