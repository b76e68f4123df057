//! Sealing backlogs: from time to time the ids that wait are written down, so that memory can forget them and the next
//! open need not read them.

use std::collections::HashMap;

use semel_core::ids::JobId;

use super::Engine;
use crate::backlog::encode_ids;
use crate::db::ChunkRow;
use crate::fault::Fault;
use crate::leases::Place;
use crate::schema::meta;

impl Engine<'_> {
    pub(super) fn seal_if_due(&mut self) -> Result<(), Fault> {
        if self.unsealed < self.segment_jobs { Ok(()) } else { self.seal_backlogs() }
    }

    /// Writes every plain pending id above the last seal into chunks. Jobs that workers have are among them: a crash
    /// forgets leases, and then these jobs wait again.
    pub(super) fn seal_backlogs(&mut self) -> Result<(), Fault> {
        let sealed_to = self.sealed_to;
        let mut leased: HashMap<u32, Vec<JobId>> = HashMap::new();
        for held in self.leases.iter().filter(|h| h.stub.place == Place::Backlog && h.stub.id > sealed_to) {
            leased.entry(held.stub.queue).or_default().push(held.stub.id);
        }
        for queue in self.queues.iter_mut() {
            let mine = leased.get(&queue.no).map_or(&[][..], Vec::as_slice);
            for list in queue.backlog.seal(sealed_to, mine) {
                let (Some(&first), Some(&last)) = (list.first(), list.last()) else { continue };
                let n = u32::try_from(list.len()).expect("a chunk lists few ids");
                self.db.put_chunk(ChunkRow { queue: queue.no, first, last, n }, &encode_ids(&list))?;
            }
        }
        for first in std::mem::take(&mut self.empty_chunks) {
            self.db.delete_chunk(first)?;
        }
        self.sealed_to = self.last_id;
        self.unsealed = 0;
        self.db.put_meta(meta::SEALED_TO, self.sealed_to.raw())?;
        self.put_meta_last_id()
    }
}
