//! Faults against many nodes: three `semel serve --store` as processes on a real PostgreSQL cluster, asked over HTTP by
//! clients that use all of them, broken from outside, judged by the checker. `make test` runs the short forms, `make soak` the
//! long ones (`SEMEL_SOAK`).
//!
//! | fault | what happens | test |
//! |---|---|---|
//! | 16 | the nodes' clocks are ten minutes apart | `clocks::heavy_nodes_with_skewed_clocks` |
//! | 18, 19 | nothing passes to the database, or one way only | `partitions::heavy_nodes_partitioned_from_the_database` |
//! | 19, 20 | packets are really lost, one in five, all in one direction | `cables::heavy_nodes_with_a_cable_that_loses_packets` |
//! | 21 | connections end in the middle of a COMMIT | `commits::heavy_nodes_whose_commits_are_cut` |
//! | 22 | every answer takes half a second more | `partitions::heavy_nodes_far_from_the_database` |
//! | 23 | all backends are terminated every 2 s | `connections::heavy_nodes_whose_backends_are_terminated` |
//! | 24 | the postmaster is killed | `connections::heavy_nodes_whose_postmaster_is_killed` |
//! | 25, 27 | a synchronous replica takes over; the old primary returns | `failover::heavy_nodes_fail_over_to_a_synchronous_replica` |
//! | 26 | an asynchronous replica takes over | `failover::heavy_nodes_fail_over_to_an_asynchronous_replica` |
//! | 28 | 40001, 40P01, 55P03 and real deadlocks | `collisions::heavy_nodes_whose_transactions_collide` |
//! | 28 | too many connections | `connections::heavy_nodes_without_connections` |
//! | 29 | nodes race, and one is stopped | `kills::heavy_nodes_race_and_one_is_stopped` |
//! | 30 | the connection that listens is dead | `listening::heavy_nodes_that_do_not_hear_each_other` |
//! | 31 | migrations are killed half way, and several at once | `migrations::heavy_nodes_whose_migrations_are_killed` |
//!
//! And beyond the list: nodes are killed (`kills::heavy_nodes_kill_loop`), a pooler stands between (`pooler`), and jobs that are
//! lost on purpose are noticed (`kills::heavy_nodes_whose_database_lost_jobs_are_caught`). Restored backups are tested with the
//! store (`semel-store-postgres`, `restores`).
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod cables;
mod clocks;
mod collisions;
mod commits;
mod connections;
mod failover;
mod kills;
mod listening;
mod migrations;
mod partitions;
mod pooler;
mod stage;

#[expect(dead_code, reason = "the faults of one server use the rest of it")]
#[path = "../kit/mod.rs"]
mod kit;
