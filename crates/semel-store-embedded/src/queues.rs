//! The queues in memory: configuration, gate, counts and backlog of each.

use std::collections::HashMap;

use semel_core::gate::Gate;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::queue::{QueueConfig, Rules};
use semel_core::records::WebhookSecret;
use semel_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::backlog::Backlog;

/// A queue's row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QueueRow {
    pub(crate) name: QueueName,
    pub(crate) config: QueueConfig,
    pub(crate) created_at: Timestamp,
    /// A deleted queue keeps its row while finished jobs refer to it by number.
    pub(crate) deleted: bool,
    /// What signs the requests to its webhook. Rows of the first stores do not have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<WebhookSecret>,
}

/// A queue's counts and gate, written with every commit that changes them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Pending and leased jobs together: leases are not on disk.
    pub(crate) unfinished: u64,
    pub(crate) completed: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
    /// Rows in `ordered`.
    pub(crate) ordered: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) gate: Gate,
}

fn is_default(gate: &Gate) -> bool {
    *gate == Gate::default()
}

impl Counts {
    /// The count that a job in `state` belongs to.
    pub(crate) fn of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Pending | State::Processing | State::AwaitingAck => &mut self.unfinished,
            State::Completed => &mut self.completed,
            State::Dead => &mut self.dead,
            State::Cancelled => &mut self.cancelled,
        }
    }
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) no: u32,
    pub(crate) name: QueueName,
    pub(crate) rules: Rules,
    pub(crate) created_at: Timestamp,
    pub(crate) deleted: bool,
    pub(crate) secrets: Vec<WebhookSecret>,
    pub(crate) counts: Counts,
    pub(crate) in_flight: u32,
    pub(crate) awaiting_ack: u32,
    pub(crate) backlog: Backlog,
    /// Whether the counts have changed since they were last written.
    pub(crate) dirty: bool,
}

impl Queue {
    pub(crate) fn new(no: u32, row: QueueRow, rules: Rules, counts: Counts, chunk_ids: usize) -> Self {
        Self {
            no,
            name: row.name,
            rules,
            created_at: row.created_at,
            deleted: row.deleted,
            secrets: row.secrets,
            counts,
            in_flight: 0,
            awaiting_ack: 0,
            backlog: Backlog::new(chunk_ids),
            dirty: false,
        }
    }

    pub(crate) fn row(&self) -> QueueRow {
        QueueRow {
            name: self.name.clone(),
            config: self.rules.config.clone(),
            created_at: self.created_at,
            deleted: self.deleted,
            secrets: self.secrets.clone(),
        }
    }
}

/// All queues, by number (as rows refer to them) and by name (as callers do).
#[derive(Debug, Default)]
pub(crate) struct Queues {
    by_no: Vec<Option<Queue>>,
    by_name: HashMap<QueueName, u32>,
}

impl Queues {
    /// The number of the queue that has this name now.
    pub(crate) fn number(&self, name: &QueueName) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, no: u32) -> Option<&Queue> {
        self.by_no.get(no as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, no: u32) -> Option<&mut Queue> {
        self.by_no.get_mut(no as usize)?.as_mut()
    }

    /// The number for the next queue to be made. Numbers are never reused: rows refer to them.
    pub(crate) fn next_number(&self) -> u32 {
        u32::try_from(self.by_no.len()).expect("fewer than four billion queues").max(1)
    }

    pub(crate) fn insert(&mut self, queue: Queue) {
        let at = queue.no as usize;
        if self.by_no.len() <= at {
            self.by_no.resize_with(at + 1, || None);
        }
        if !queue.deleted {
            self.by_name.insert(queue.name.clone(), queue.no);
        }
        self.by_no[at] = Some(queue);
    }

    /// Takes the name and the secrets away; the number stays for the rows that have it.
    pub(crate) fn delete(&mut self, no: u32) {
        if let Some(queue) = self.by_no.get_mut(no as usize).and_then(Option::as_mut) {
            queue.deleted = true;
            queue.secrets.clear();
            self.by_name.remove(&queue.name);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.by_no.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Queue> {
        self.by_no.iter_mut().flatten()
    }

    /// Those that exist for callers, by name.
    pub(crate) fn current(&self) -> Vec<&Queue> {
        let mut all: Vec<_> = self.iter().filter(|q| !q.deleted).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody can ask for them any more, so only the row shows whether they are gone from the disk.
    #[test]
    fn a_deleted_queue_leaves_no_secret_in_its_row() {
        let rules = Rules::new(QueueConfig::default()).unwrap();
        let created_at = Timestamp::from_millis(1);
        let secret = WebhookSecret { secret: "whsec".into(), created_at, expires_at: None };
        let row = QueueRow {
            name: QueueName::try_from("orders").unwrap(),
            config: rules.config.clone(),
            created_at,
            deleted: false,
            secrets: vec![secret.clone()],
        };
        let mut queues = Queues::default();
        queues.insert(Queue::new(1, row, rules, Counts::default(), 8));
        assert_eq!(queues.get(1).unwrap().row().secrets, [secret]);
        queues.delete(1);
        let row = queues.get(1).unwrap().row();
        assert!(row.deleted && row.secrets.is_empty());
    }
}
