//! What the faults have in common: a server as a process, clients that speak HTTP to it, and a witness of what they saw.

pub(crate) mod arena;
pub(crate) mod endpoint;
pub(crate) mod faketime;
pub(crate) mod http;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod publisher;
pub(crate) mod traffic;
pub(crate) mod wire;
pub(crate) mod witness;
pub(crate) mod worker;
