//! The plain jobs of one queue that wait for a worker: for them publish order is ready order, and there is no index.
//!
//! Memory holds a short window of the next ids. What is beyond it is on disk: first sealed chunks (lists of ids, written
//! once per segment), then the tail, whose ids are in memory only until the next seal. So memory does not grow with the
//! backlog, and opening a store reads the tail, not the backlog.
//!
//! ```text
//!   oldest                                                     newest
//!   [ window ........ ] [ chunk ] [ chunk ] [ chunk ] [ tail ........ ]
//!     ids in memory       first and last id in memory    ids in memory
//! ```

use std::collections::VecDeque;

use semel_core::ids::JobId;

use crate::db::ChunkRow;

/// How many ids a chunk lists, and how many the window takes before ids go to the tail: large enough that loading a
/// chunk is rare, small enough that ten thousand busy queues fit in memory.
pub(crate) const DEFAULT_CHUNK_IDS: usize = 1024;

/// What memory knows of a sealed chunk.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub(crate) first: JobId,
    pub(crate) last: JobId,
    /// How many of its jobs may still be plain and pending. At zero its row is deleted.
    remaining: u32,
    loaded: bool,
    /// Whether some of its ids may have left meanwhile: an earlier process sealed it, or a job in it was cancelled. Which
    /// ones is asked of the rows when it is loaded; to remember them here would take memory without bound.
    stale: bool,
}

/// The plain jobs of one queue, in order.
#[derive(Debug)]
pub(crate) struct Backlog {
    chunk_ids: usize,
    window: VecDeque<JobId>,
    chunks: VecDeque<Chunk>,
    unloaded: usize,
    tail: VecDeque<JobId>,
}

impl Backlog {
    pub(crate) fn new(chunk_ids: usize) -> Self {
        Self {
            chunk_ids,
            window: VecDeque::new(),
            chunks: VecDeque::new(),
            unloaded: 0,
            tail: VecDeque::new(),
        }
    }

    /// A new job. Ids come in increasing order.
    pub(crate) fn push(&mut self, id: JobId) {
        if self.unloaded == 0 && self.tail.is_empty() && self.window.len() < self.chunk_ids {
            self.window.push_back(id);
        } else {
            self.tail.push_back(id);
        }
    }

    /// The next id, if it is in memory.
    pub(crate) fn front(&mut self) -> Option<JobId> {
        if self.window.is_empty() && self.unloaded == 0 {
            let n = self.tail.len().min(self.chunk_ids);
            self.window.extend(self.tail.drain(..n));
        }
        self.window.front().copied()
    }

    /// Takes the front out: it has been leased.
    pub(crate) fn pop(&mut self) {
        self.window.pop_front();
    }

    /// The chunk to load next, and whether it is stale: the window is empty and there is more on disk.
    pub(crate) fn wants(&self) -> Option<(JobId, JobId, bool)> {
        if !self.window.is_empty() {
            return None;
        }
        self.chunks.iter().find(|c| !c.loaded).map(|c| (c.first, c.last, c.stale))
    }

    /// The ids of the wanted chunk that are still plain and pending. `None` back means that none is: delete its row.
    pub(crate) fn load(&mut self, first: JobId, ids: Vec<JobId>) -> Option<JobId> {
        let chunk = self.chunks.iter_mut().find(|c| c.first == first).expect("only a wanted chunk is loaded");
        chunk.loaded = true;
        chunk.remaining = u32::try_from(ids.len()).expect("a chunk lists few ids");
        self.unloaded -= 1;
        let empty = ids.is_empty();
        self.window.extend(ids);
        empty.then(|| self.drop_chunk(first))
    }

    /// A job is not plain and pending any more: it was settled, cancelled or changed. Returns the chunk whose row is now
    /// of no use, if this was its last job.
    pub(crate) fn leave(&mut self, id: JobId) -> Option<JobId> {
        let at = self.chunks.partition_point(|c| c.last < id);
        match self.chunks.get_mut(at).filter(|c| c.first <= id) {
            Some(chunk) if chunk.loaded => {
                chunk.remaining -= 1;
                let spent = chunk.remaining == 0;
                let first = chunk.first;
                spent.then(|| self.drop_chunk(first))
            }
            Some(chunk) => {
                chunk.stale = true;
                None
            }
            None => None,
        }
    }

    /// A job that is waiting leaves without having been leased.
    pub(crate) fn remove(&mut self, id: JobId) -> Option<JobId> {
        for list in [&mut self.window, &mut self.tail] {
            if let Ok(at) = list.binary_search(&id) {
                list.remove(at);
                break;
            }
        }
        self.leave(id)
    }

    fn drop_chunk(&mut self, first: JobId) -> JobId {
        let at = self.chunks.partition_point(|c| c.first < first);
        self.chunks.remove(at);
        first
    }

    /// A chunk found on disk at open.
    pub(crate) fn inherit(&mut self, row: &ChunkRow) {
        self.chunks.push_back(Chunk {
            first: row.first,
            last: row.last,
            remaining: row.n,
            loaded: false,
            stale: true,
        });
        self.unloaded += 1;
    }

    /// What a seal writes: every id above `sealed_to` that is still plain and pending, in lists of at most
    /// `chunk_ids`. `leased` are those of them that workers have.
    pub(crate) fn seal(&mut self, sealed_to: JobId, leased: &[JobId]) -> Vec<Vec<JobId>> {
        let from = self.window.partition_point(|&id| id <= sealed_to);
        let mut held: Vec<JobId> = self.window.range(from..).copied().chain(leased.iter().copied()).collect();
        held.sort_unstable();
        let tail: Vec<JobId> = std::mem::take(&mut self.tail).into();
        let mut lists = Vec::new();
        for (ids, loaded) in [(held, true), (tail, false)] {
            for list in ids.chunks(self.chunk_ids) {
                self.note_sealed(list, loaded);
                lists.push(list.to_vec());
            }
        }
        lists
    }

    fn note_sealed(&mut self, list: &[JobId], loaded: bool) {
        let (Some(&first), Some(&last)) = (list.first(), list.last()) else { return };
        let remaining = u32::try_from(list.len()).expect("a chunk lists few ids");
        self.chunks.push_back(Chunk { first, last, remaining, loaded, stale: false });
        self.unloaded += usize::from(!loaded);
    }

    /// Whether nothing waits here.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.window.is_empty() && self.tail.is_empty() && self.unloaded == 0
    }
}

/// Writes ids as their distances: consecutive ids of a busy store differ by little.
pub(crate) fn encode_ids(ids: &[JobId]) -> Vec<u8> {
    let mut distances = Vec::with_capacity(ids.len());
    let mut before = 0;
    for id in ids {
        distances.push(id.raw() - before);
        before = id.raw();
    }
    crate::record::seal_numbers(&distances, ids.first().map_or(0, |id| id.raw()))
}

/// Reads what [`encode_ids`] wrote.
pub(crate) fn decode_ids(record: &[u8], first: JobId) -> Result<Vec<JobId>, crate::record::Damage> {
    let mut before = 0u64;
    let mut ids = Vec::new();
    for distance in crate::record::open_numbers(record, first.raw())? {
        before = before.wrapping_add(distance);
        ids.push(JobId::from_raw(before).ok_or(crate::record::Damage::Field("id"))?);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> JobId {
        JobId::from_raw(n).unwrap()
    }

    fn drain(backlog: &mut Backlog, disk: &mut Vec<Vec<JobId>>) -> Vec<u64> {
        let mut out = Vec::new();
        loop {
            if let Some((first, ..)) = backlog.wants() {
                let at = disk.iter().position(|list| list[0] == first).unwrap();
                let list = disk.remove(at);
                backlog.load(first, list);
            }
            let Some(next) = backlog.front() else { break };
            backlog.pop();
            backlog.leave(next);
            out.push(next.raw());
        }
        out
    }

    #[test]
    fn order_is_publish_order_across_window_chunks_and_tail() {
        let mut backlog = Backlog::new(8);
        let n = 8;
        (1..=3 * n).for_each(|i| backlog.push(id(i)));
        let mut disk = backlog.seal(JobId::ZERO, &[]);
        assert!(disk.len() >= 3 && backlog.window.len() == 8 && backlog.tail.is_empty());
        (3 * n + 1..=3 * n + 10).for_each(|i| backlog.push(id(i)));
        assert_eq!(drain(&mut backlog, &mut disk), (1..=3 * n + 10).collect::<Vec<_>>());
        assert!(backlog.is_empty() && backlog.chunks.is_empty());
    }

    #[test]
    fn a_chunk_is_dropped_with_its_last_job() {
        let mut backlog = Backlog::new(8);
        (1..=3).for_each(|i| backlog.push(id(i)));
        backlog.pop();
        let lists = backlog.seal(JobId::ZERO, &[id(1)]);
        assert_eq!(
            lists,
            vec![vec![id(1), id(2), id(3)]],
            "a leased job is sealed too: a crash makes it wait again"
        );
        assert_eq!(backlog.leave(id(1)), None);
        assert_eq!(backlog.remove(id(3)), None);
        assert_eq!(backlog.remove(id(2)), Some(id(1)));
    }

    #[test]
    fn a_chunk_with_a_cancelled_job_in_it_is_compared_with_the_rows_when_it_is_loaded() {
        let mut backlog = Backlog::new(8);
        (1..=8 + 5).for_each(|i| backlog.push(id(i)));
        backlog.seal(JobId::ZERO, &[]);
        assert_eq!(backlog.remove(id(10)), None);
        (1..=8).for_each(|_| backlog.pop());
        assert_eq!(backlog.wants(), Some((id(9), id(13), true)));
        let left: Vec<_> = [9, 11, 12, 13].map(id).to_vec();
        assert_eq!(backlog.load(id(9), left.clone()), None);
        for (n, &next) in left.iter().enumerate() {
            assert_eq!(backlog.front(), Some(next));
            backlog.pop();
            assert_eq!(backlog.leave(next), (n == 3).then_some(id(9)), "its row goes with its last job");
        }
    }

    #[test]
    fn ids_survive_their_record() {
        let ids: Vec<_> = [5, 6, 900, 1 << 60].map(id).to_vec();
        let record = encode_ids(&ids);
        assert_eq!(decode_ids(&record, ids[0]).unwrap(), ids);
        assert!(decode_ids(&record, id(6)).is_err());
    }
}
