//! The entries held in memory: the head, which still grows, and the frozen maps waiting to be sealed.

use hashbrown::HashTable;

use super::range::Entry;

/// A multimap from hash to ids, newest first.
///
/// The entries are a list in id order, and those of one hash are linked from the newest to the oldest; the table knows the
/// newest. So it does not matter how often one key comes again (with a window of nothing that is thousands of times), and
/// the newest entries are taken back by popping them. Hashes are random already and used as they are.
pub(super) struct KeyMap {
    newest: HashTable<u32>,
    links: Vec<Link>,
}

struct Link {
    entry: Entry,
    /// The place of the next older entry of the same hash.
    older: Option<u32>,
}

impl KeyMap {
    pub(super) fn with_capacity(entries: usize) -> Self {
        Self { newest: HashTable::with_capacity(entries), links: Vec::with_capacity(entries) }
    }

    /// A map of these entries, in whatever order they are.
    pub(super) fn of(entries: &[Entry]) -> Self {
        let mut sorted = entries.to_vec();
        sorted.sort_unstable_by_key(|entry| entry.id);
        let mut map = Self::with_capacity(sorted.len());
        sorted.into_iter().for_each(|entry| map.insert(entry));
        map
    }

    /// Adds an entry. Its id MUST be above all others here.
    pub(super) fn insert(&mut self, entry: Entry) {
        debug_assert!(self.links.last().is_none_or(|last| last.entry.id < entry.id));
        let Self { newest, links } = self;
        let at = u32::try_from(links.len()).expect("a map of 2^32 entries would be 100 GB");
        let hash_of = |at: &u32| links[*at as usize].entry.hash;
        let older = match newest.find_mut(entry.hash, |at| hash_of(at) == entry.hash) {
            Some(newest) => Some(std::mem::replace(newest, at)),
            None => {
                newest.insert_unique(entry.hash, at, hash_of);
                None
            }
        };
        links.push(Link { entry, older });
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.newest_of(hash).is_some()
    }

    /// The ids under the hash, newest first.
    pub(super) fn ids(&self, hash: u64) -> impl Iterator<Item = u64> + '_ {
        let older = |link: &&Link| link.older.map(|older| &self.links[older as usize]);
        std::iter::successors(self.newest_of(hash), older).map(|link| link.entry.id)
    }

    /// Takes the entries above `id` out and returns them, oldest first.
    pub(super) fn split_above(&mut self, id: u64) -> Vec<Entry> {
        let mut above = Vec::new();
        while let Some(link) = self.links.last().filter(|link| link.entry.id > id) {
            above.push(link.entry);
            self.remove_last();
        }
        above.reverse();
        above
    }

    /// All entries, in the order of a run file.
    pub(super) fn sorted(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.links.iter().map(|link| link.entry).collect();
        entries.sort_unstable();
        entries
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.newest.allocation_size() + self.links.capacity() * size_of::<Link>()
    }

    fn newest_of(&self, hash: u64) -> Option<&Link> {
        let link = |at: &u32| &self.links[*at as usize];
        self.newest.find(hash, |at| link(at).entry.hash == hash).map(link)
    }

    /// Takes the last entry out, which is the newest of its hash; the next older takes its place in the table.
    fn remove_last(&mut self) {
        let Some(last) = self.links.pop() else { return };
        let at = self.links.len();
        let slot = self.newest.find_entry(last.entry.hash, |slot| *slot as usize == at);
        let mut slot = slot.expect("the last entry is the newest of its hash, and the table knows those");
        match last.older {
            Some(older) => *slot.get_mut() = older,
            None => _ = slot.remove(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(ids: std::ops::RangeInclusive<u64>, hashes: u64) -> KeyMap {
        KeyMap::of(&ids.map(|id| Entry { hash: id % hashes, id }).collect::<Vec<_>>())
    }

    fn ids(map: &KeyMap, hash: u64) -> Vec<u64> {
        map.ids(hash).collect()
    }

    #[test]
    fn many_ids_stand_under_one_hash_newest_first() {
        let map = map(1..=500, 3);
        let expected: Vec<u64> = (1..=500).rev().filter(|id| id % 3 == 1).collect();
        assert_eq!((ids(&map, 1), ids(&map, 7)), (expected, vec![]));
        assert!(map.contains(1) && !map.contains(7));
    }

    #[test]
    fn splitting_moves_exactly_what_is_above() {
        for (hashes, at) in [(1, 90), (5, 90), (1_000, 90), (5, 0), (5, 100)] {
            let mut whole = map(1..=100, hashes);
            let above = whole.split_above(at);
            assert_eq!(
                above.iter().map(|entry| entry.id).collect::<Vec<_>>(),
                (at + 1..=100).collect::<Vec<_>>()
            );
            let rest = map(1..=at, hashes);
            assert_eq!(whole.sorted(), rest.sorted());
            for hash in 0..hashes {
                assert_eq!(ids(&whole, hash), ids(&rest, hash), "{hashes} hashes, split at {at}");
            }
        }
    }

    #[test]
    fn what_was_split_off_can_come_again() {
        let mut whole = map(1..=100, 7);
        whole.split_above(40).into_iter().for_each(|entry| whole.insert(entry));
        (0..7).for_each(|hash| assert_eq!(ids(&whole, hash), ids(&map(1..=100, 7), hash)));
    }

    #[test]
    fn order_does_not_matter_where_a_map_is_made_whole() {
        let backwards: Vec<Entry> = (1..=50).rev().map(|id| Entry { hash: id % 4, id }).collect();
        (0..4).for_each(|hash| assert_eq!(ids(&KeyMap::of(&backwards), hash), ids(&map(1..=50, 4), hash)));
    }
}
