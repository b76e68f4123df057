//! Schedules and API keys: records that the store only keeps.

use semel_core::records::{ApiKeyRecord, ScheduleRecord};
use semel_core::refusal::Refusal;

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

    pub(crate) fn schedules(&self) -> Vec<ScheduleRecord> {
        self.schedules.values().cloned().collect()
    }

    pub(crate) fn api_keys(&self) -> Vec<ApiKeyRecord> {
        self.api_keys.values().cloned().collect()
    }
}
