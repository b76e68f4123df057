//! The embedded store against the law, against the model, and against its own promises.

mod conformance;
mod format;
mod harness;
mod maintenance;
mod model;
mod upkeep;
