//! The advisory locks of a store. All are held to the end of a transaction, never longer: a lock of a session would outlive
//! its transaction in a pooler, on a connection that belongs to somebody else by then.
//!
//! The first number says what is locked, the second which one. Other programs use the same numbers of the same database, so
//! ours spell "SEM" first.

/// One migration at a time.
pub(crate) const MIGRATE: i32 = 0x5345_4d01;
/// One node at a time looks for a free lane.
pub(crate) const JOIN: i32 = 0x5345_4d02;
/// A queue: shared by whoever changes its jobs, held alone by whoever changes its gate or its settings.
pub(crate) const QUEUE: i32 = 0x5345_4d03;
/// A queue that applications publish to in transactions of their own (`semel.publish`): shared by them, held alone by whoever
/// deletes the queue. Such a transaction may last, so nothing else waits for it.
pub(crate) const PUBLISH: i32 = 0x5345_4d04;
/// One node at a time finds out that another server is the primary.
pub(crate) const REIGN: i32 = 0x5345_4d06;
// 0x5345_4d05 is taken by `semel.next_id`, for moments within a statement.
