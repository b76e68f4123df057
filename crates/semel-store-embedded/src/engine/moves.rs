//! Moving a job: out of where it waits, into where its new state belongs. Every change of state goes through here.

use semel_core::ids::JobId;
use semel_core::job::Progress;
use semel_core::lifecycle::State;
use semel_core::time::Timestamp;

use super::{Engine, Table};
use crate::fault::Fault;
use crate::leases::{Place, Stub};
use crate::record;

impl Engine<'_> {
    /// Puts a pending job that is not plain where it waits: behind its group, or in order.
    pub(super) fn enqueue(&mut self, stub: &Stub, due: Timestamp) -> Result<(), Fault> {
        match &stub.gate {
            Some(group) => self.join_group(stub.queue, group, stub.id),
            None => self.put_in_order(stub.queue, stub.rank, due, stub.id),
        }
    }

    pub(super) fn put_in_order(
        &mut self,
        queue: u32,
        rank: u8,
        due: Timestamp,
        id: JobId,
    ) -> Result<(), Fault> {
        self.db.order(queue, rank, due, id)?;
        self.queue_mut(queue)?.counts.ordered += 1;
        Ok(())
    }

    fn take_out_of_order(&mut self, queue: u32, rank: u8, due: Timestamp, id: JobId) -> Result<(), Fault> {
        if !self.db.unorder(queue, rank, due, id)? {
            return Err(Fault::Broken(format!("job {id} is missing from the order of its queue")));
        }
        self.queue_mut(queue)?.counts.ordered -= 1;
        Ok(())
    }

    /// Moves a job that has not ended (leased or waiting) to where `progress` says it is now.
    pub(super) fn move_unfinished(
        &mut self,
        stub: &Stub,
        progress: &Progress,
        leased: bool,
    ) -> Result<(), Fault> {
        let has_live = self.leave_place(stub, leased)?;
        record::encode_progress(&mut self.buffer, stub.id, progress);
        if progress.state == State::Pending {
            self.db.live.put(stub.id, &self.buffer)?;
            // A job that retries keeps its open place in its group, so it goes straight into the order.
            return match stub.place {
                Place::Waiting { .. } => Ok(()),
                _ => self.put_in_order(stub.queue, stub.rank, progress.due, stub.id),
            };
        }
        if has_live {
            self.db.live.delete(stub.id)?;
        }
        self.end(stub, progress)
    }

    /// Takes a job out of where it waits, and says whether it has a row in `live`.
    fn leave_place(&mut self, stub: &Stub, leased: bool) -> Result<bool, Fault> {
        match stub.place {
            Place::Backlog => {
                let queue = self.queue_mut(stub.queue)?;
                let spent = if leased { queue.backlog.leave(stub.id) } else { queue.backlog.remove(stub.id) };
                if let Some(first) = spent {
                    self.db.delete_chunk(first)?;
                }
                Ok(false)
            }
            Place::Ordered { due, live } => {
                self.take_out_of_order(stub.queue, stub.rank, due, stub.id)?;
                Ok(live)
            }
            Place::Waiting { live } => Ok(live),
        }
    }

    /// Files a job that has ended. The record is in the buffer.
    fn end(&mut self, stub: &Stub, progress: &Progress) -> Result<(), Fault> {
        let rows = if progress.state == State::Dead { &mut self.db.dead } else { &mut self.db.done };
        rows.insert(stub.id, &self.buffer)?;
        let counts = &mut self.queue_mut(stub.queue)?.counts;
        counts.unfinished -= 1;
        *counts.of(progress.state) += 1;
        self.sweep.finished(stub.id);
        if let Some(group) = &stub.gate {
            self.leave_group(stub.queue, group, stub.id)?;
        }
        Ok(())
    }

    /// Writes progress back to the table it came from: for changes that do not move the job.
    pub(super) fn rewrite(&mut self, table: Table, id: JobId, progress: &Progress) -> Result<(), Fault> {
        record::encode_progress(&mut self.buffer, id, progress);
        let rows = match table {
            Table::Live => &mut self.db.live,
            Table::Done => &mut self.db.done,
            Table::Dead => &mut self.db.dead,
        };
        rows.put(id, &self.buffer)?;
        Ok(())
    }

    /// Where an unfinished job that is not leased waits.
    pub(super) fn place_of(&mut self, loaded: &super::Loaded) -> Result<Place, Fault> {
        let live = loaded.table == Some(Table::Live);
        let spec = &loaded.job.spec;
        if spec.is_plain() && !live {
            return Ok(Place::Backlog);
        }
        if let (true, Some(group)) = (spec.gated, &spec.group)
            && self.waits_in_group(loaded.queue, group, loaded.job.id)?
        {
            return Ok(Place::Waiting { live });
        }
        Ok(Place::Ordered { due: loaded.job.progress.due, live })
    }
}
