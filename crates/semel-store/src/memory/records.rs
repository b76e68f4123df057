//! Schedules, API keys and replay tasks: records that the store only keeps.

use semel_core::records::{ApiKeyRecord, ScheduleRecord};
use semel_core::refusal::Refusal;
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;

use super::tables::Tables;
use crate::command::{Answer, Reply};

impl Tables {
    pub(super) fn put_schedule(&mut self, record: ScheduleRecord) -> Answer {
        record.validate()?;
        self.found_queue(&record.queue)?;
        self.schedules.insert(record.name.clone(), record);
        Ok(Reply::Done)
    }

    pub(super) fn delete_schedule(&mut self, name: String) -> Answer {
        match self.schedules.remove(&name) {
            Some(_) => Ok(Reply::Done),
            None => Err(Refusal::RecordNotFound { kind: "schedule", name }),
        }
    }

    pub(super) fn advance_schedule(&mut self, name: String, from: Timestamp, to: Timestamp) -> Answer {
        match self.schedules.get_mut(&name) {
            Some(schedule) => schedule.advance(from, to).map(|()| Reply::Done),
            None => Err(Refusal::RecordNotFound { kind: "schedule", name }),
        }
    }

    pub(super) fn put_api_key(&mut self, record: ApiKeyRecord) -> Answer {
        record.validate()?;
        self.api_keys.insert(record.id.clone(), record);
        Ok(Reply::Done)
    }

    pub(super) fn delete_api_key(&mut self, id: String) -> Answer {
        match self.api_keys.remove(&id) {
            Some(_) => Ok(Reply::Done),
            None => Err(Refusal::RecordNotFound { kind: "API key", name: id }),
        }
    }

    pub(super) fn touch_api_key(&mut self, id: String, at: Timestamp) -> Answer {
        match self.api_keys.get_mut(&id) {
            Some(key) => key.touch(at),
            None => return Err(Refusal::RecordNotFound { kind: "API key", name: id }),
        }
        Ok(Reply::Done)
    }

    pub(super) fn put_replay(&mut self, record: ReplayRecord) -> Answer {
        record.validate()?;
        self.found_queue(&record.queue)?;
        let kept = self.replays.get(&record.id);
        let record = record.following(kept);
        self.replays.insert(record.id.clone(), record);
        Ok(Reply::Done)
    }

    pub(super) fn delete_replay(&mut self, id: String) -> Answer {
        match self.replays.remove(&id) {
            Some(_) => Ok(Reply::Done),
            None => Err(Refusal::RecordNotFound { kind: "replay", name: id }),
        }
    }

    pub(crate) fn replays(&self) -> Vec<ReplayRecord> {
        self.replays.values().cloned().collect()
    }

    pub(crate) fn schedules(&self) -> Vec<ScheduleRecord> {
        self.schedules.values().cloned().collect()
    }

    pub(crate) fn api_keys(&self) -> Vec<ApiKeyRecord> {
        self.api_keys.values().cloned().collect()
    }
}
