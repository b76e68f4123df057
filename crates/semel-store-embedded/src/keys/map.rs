//! The entries held in memory: the head, which still grows, and the frozen maps waiting to be sealed.

use hashbrown::HashTable;

use super::range::Entry;

/// A multimap from hash to ids. The hashes are random already (see [`KeyHasher`](super::KeyHasher)), so they are used as
/// they are.
pub(super) struct KeyMap {
    table: HashTable<Entry>,
}

impl KeyMap {
    pub(super) fn with_capacity(entries: usize) -> Self {
        Self { table: HashTable::with_capacity(entries) }
    }

    pub(super) fn of(entries: &[Entry]) -> Self {
        let mut map = Self::with_capacity(entries.len());
        entries.iter().for_each(|entry| map.insert(*entry));
        map
    }

    pub(super) fn insert(&mut self, entry: Entry) {
        self.table.insert_unique(entry.hash, entry, |entry| entry.hash);
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.table.find(hash, |entry| entry.hash == hash).is_some()
    }

    /// The ids under the hash, newest first.
    pub(super) fn ids(&self, hash: u64) -> Vec<u64> {
        let mut ids: Vec<u64> =
            self.table.iter_hash(hash).filter(|entry| entry.hash == hash).map(|entry| entry.id).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids
    }

    /// Takes the entries above `id` out and returns them.
    pub(super) fn split_above(&mut self, id: u64) -> Vec<Entry> {
        self.table.extract_if(|entry| entry.id > id).collect()
    }

    /// All entries, in the order of a run file.
    pub(super) fn sorted(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.table.iter().copied().collect();
        entries.sort_unstable();
        entries
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.table.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hash: u64, id: u64) -> Entry {
        Entry { hash, id }
    }

    #[test]
    fn many_ids_stand_under_one_hash_newest_first() {
        let map = KeyMap::of(&(1..=500).map(|id| entry(id % 3, id)).collect::<Vec<_>>());
        let expected: Vec<u64> = (1..=500).rev().filter(|id| id % 3 == 1).collect();
        assert_eq!(map.ids(1), expected);
        assert_eq!(map.ids(7), Vec::<u64>::new());
        assert!(map.contains(1) && !map.contains(7));
    }

    #[test]
    fn splitting_moves_exactly_what_is_above() {
        let mut map = KeyMap::of(&(1..=100).map(|id| entry(id % 5, id)).collect::<Vec<_>>());
        let mut above = map.split_above(90);
        above.sort_unstable_by_key(|entry| entry.id);
        assert_eq!(above.iter().map(|entry| entry.id).collect::<Vec<_>>(), (91..=100).collect::<Vec<_>>());
        assert_eq!(map.len(), 90);
        assert_eq!(map.sorted().iter().map(|entry| entry.id).max(), Some(90));
    }
}
