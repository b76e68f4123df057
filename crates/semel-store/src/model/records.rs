//! The commands of a history that are about the small records.

use semel_core::records::{ApiKeyRecord, ScheduleRecord, Scope, WebhookSecret};
use semel_core::replay::{ReplayCounts, ReplayFilter, ReplayRecord, ReplayState};
use semel_core::time::Millis;

use super::queues;
use super::reference::Reference;
use super::step::{RECORDS, RecordOp};
use crate::command::Command;

impl Reference {
    /// The command for a step about a record.
    pub(super) fn record(&self, op: RecordOp) -> Command {
        match op {
            RecordOp::PutSchedule { name, valid } => {
                Command::PutSchedule(Box::new(self.schedule(name, valid)))
            }
            RecordOp::DeleteSchedule { name } => Command::DeleteSchedule(RECORDS[name].into()),
            RecordOp::AdvanceSchedule { name, in_time } => self.advance_schedule(name, in_time),
            RecordOp::PutApiKey { name, valid } => Command::PutApiKey(Box::new(self.api_key(name, valid))),
            RecordOp::DeleteApiKey { name } => Command::DeleteApiKey(RECORDS[name].into()),
            RecordOp::TouchApiKey { name } => Command::TouchApiKey { id: RECORDS[name].into(), at: self.now },
            RecordOp::PutReplay { name, valid } => Command::PutReplay(Box::new(self.replay(name, valid))),
            RecordOp::DeleteReplay { name } => Command::DeleteReplay(RECORDS[name].into()),
            RecordOp::PutSecrets { queue, valid } => {
                let secret = if valid { format!("s{}", self.now.millis()) } else { String::new() };
                let secret = WebhookSecret { secret, created_at: self.now, expires_at: None };
                Command::PutSecrets { queue: queues::name(queue), secrets: vec![secret] }
            }
        }
    }

    /// Moves a schedule on from where it stands, or from where it does not.
    fn advance_schedule(&self, name: usize, in_time: bool) -> Command {
        let schedules = self.tables.schedules();
        let stands_at = schedules.iter().find(|s| s.name == RECORDS[name]).map_or(self.now, |s| s.next_at);
        let from = if in_time { stands_at } else { stands_at.plus(Millis::from_millis(1)) };
        Command::AdvanceSchedule { name: RECORDS[name].into(), from, to: from.plus(Millis::from_hours(1)) }
    }

    fn replay(&self, name: usize, valid: bool) -> ReplayRecord {
        ReplayRecord {
            id: RECORDS[name].into(),
            queue: queues::name(0),
            filter: ReplayFilter { from: Some(self.now), ..ReplayFilter::default() },
            rate: Some(u32::from(valid)),
            dry_run: false,
            state: ReplayState::Running,
            created_at: self.now,
            finished_at: None,
            cursor: self.jobs.last().copied(),
            counts: ReplayCounts { looked_at: self.jobs.len() as u64, ..ReplayCounts::default() },
        }
    }

    fn schedule(&self, name: usize, valid: bool) -> ScheduleRecord {
        ScheduleRecord {
            name: RECORDS[name].into(),
            queue: queues::name(0),
            cron: if valid { "0 3 * * *".into() } else { String::new() },
            zone: "UTC".into(),
            payload: "{}".into(),
            next_at: self.now,
        }
    }

    fn api_key(&self, name: usize, valid: bool) -> ApiKeyRecord {
        ApiKeyRecord {
            id: RECORDS[name].into(),
            hash: if valid { "ab".repeat(32) } else { "secret".into() },
            label: "till".into(),
            scopes: vec![Scope::Publish, Scope::Read],
            queues: vec!["orders*".into()],
            created_at: self.now,
            expires_at: None,
            last_used_at: None,
        }
    }
}
