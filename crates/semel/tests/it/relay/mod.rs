//! `semel relay`: real processes, really killed. Nothing is lost, nothing is published twice, and groups stay in order.

mod command;
mod killed;
mod shop;
