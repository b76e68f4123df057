//! The evidence that Semel keeps its promises, and the tools to produce it.
//!
//! A [workload] drives a store at full speed and writes a [history] of what it asked and what it was told. Somebody kills
//! the process, cuts the power or damages a file. Then the store is read again, and the [checker] decides whether every
//! invariant held. The tests in `tests/` are the faults; for each invariant `tests/broken_builds.rs` has a store that
//! breaks it, because a checker that never objects proves nothing.

pub mod book;
pub mod campaign;
pub mod checker;
pub mod child;
pub mod clock;
pub mod dice;
pub mod disk;
pub mod drain;
pub mod history;
pub mod injector;
pub mod recorder;
pub mod settings;
pub mod specimen;
pub mod survey;
pub mod trial;
pub mod wal;
pub mod workload;

/// The examples in the README compile, or the tests fail.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
