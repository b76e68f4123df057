//! The index against a model: a plain map that plays the truth, through generated histories with crashes and damage.
//!
//! The hashes are short, so that most lookups have several candidates. After each crash the model does what the store does:
//! it forgets what was not durable, rebuilds what is missing, and inserts again what is not sealed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::Index;

use super::upkeep_test::scratch;
use super::*;

/// Hashes are of so many bits.
const BITS: u32 = 5;

#[derive(Debug, Clone)]
enum Op {
    /// A batch of rows, with or without a key each; it is committed later, or rolled back at once.
    Publish {
        rows: Vec<Option<u64>>,
        rolled_back: bool,
    },
    /// The rows so far become durable.
    Commit,
    /// The head is sealed whatever its size.
    Seal,
    Poll,
    Flush,
    Lookup(u64),
    /// Rows expire, anywhere.
    Delete(Vec<Index>),
    /// The runs below the oldest row are dropped.
    Retire,
    /// A run is rewritten to its rows that still exist.
    Compact(Index),
    /// The process ends and starts again, perhaps with a fault to come, perhaps on a damaged disk.
    Restart {
        fault: Option<Fault>,
        damage: Option<(Index, Harm)>,
    },
}

/// What can be done to a run file while nobody has it open.
#[derive(Debug, Clone)]
enum Harm {
    Remove,
    Flip(Index),
    Cut(Index),
}

fn fault() -> impl Strategy<Value = Fault> {
    let steps: Vec<Step> = Step::all().collect();
    let how = prop_oneof![3 => Just(How::Kill), 1 => Just(How::Fail)];
    (proptest::sample::select(steps), how).prop_map(|(step, how)| Fault { step, how })
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![Just(Harm::Remove), any::<Index>().prop_map(Harm::Flip), any::<Index>().prop_map(Harm::Cut)]
}

fn op(batch: usize) -> impl Strategy<Value = Op> {
    let hash = 0..1_u64 << BITS;
    let rows = prop::collection::vec(prop::option::weighted(0.8, hash.clone()), 0..batch);
    prop_oneof![
        10 => (rows, prop::bool::weighted(0.1))
            .prop_map(|(rows, rolled_back)| Op::Publish { rows, rolled_back }),
        8 => Just(Op::Commit),
        1 => Just(Op::Seal),
        3 => Just(Op::Poll),
        3 => Just(Op::Flush),
        4 => hash.prop_map(Op::Lookup),
        3 => prop::collection::vec(any::<Index>(), 0..batch).prop_map(Op::Delete),
        2 => Just(Op::Retire),
        3 => any::<Index>().prop_map(Op::Compact),
        2 => (prop::option::weighted(0.8, fault()), prop::option::weighted(0.2, (any::<Index>(), harm())))
            .prop_map(|(fault, damage)| Op::Restart { fault, damage }),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    (1..8_usize, 2..4_usize, 8..64_u64, 1..4_usize).prop_map(
        |(run_keys, merge_fan, max_run_keys, max_frozen)| {
            let hasher = KeyHasher::with_bits([0; 16], BITS);
            Options { run_keys, merge_fan, max_run_keys, max_frozen, ..Options::new(&hasher) }
        },
    )
}

/// The truth, and the index that must agree with it.
struct Model {
    dir: tempfile::TempDir,
    options: Options,
    /// Taken out only while the process is "down".
    index: Option<KeyIndex>,
    /// The keyed rows.
    rows: BTreeMap<u64, u64>,
    /// All entries there ever were, which may still be in the index as garbage.
    ever: BTreeSet<Entry>,
    next_id: u64,
    durable_to: u64,
    floor: u64,
    /// What had to be rebuilt and may not be durable yet, so that another crash may find it missing again.
    owed: Vec<IdRange>,
    /// The background thread was seen dead; only an injected kill explains it.
    killed: bool,
}

impl Model {
    fn new(options: Options) -> Self {
        let dir = scratch();
        let mut model = Self {
            dir,
            options,
            index: None,
            rows: BTreeMap::new(),
            ever: BTreeSet::new(),
            next_id: 1,
            durable_to: 0,
            floor: 0,
            owed: Vec::new(),
            killed: false,
        };
        model.start();
        model
    }

    fn index(&mut self) -> &mut KeyIndex {
        self.index.as_mut().unwrap()
    }

    /// Passes on what succeeded. A failure must be explained by the fault of this life.
    fn explained<T>(&mut self, result: Result<T, KeyIndexError>) -> Option<T> {
        let how = self.options.fault.map(|fault| fault.how);
        match result {
            Ok(value) => return Some(value),
            Err(KeyIndexError::Stopped) if how == Some(How::Kill) => self.killed = true,
            Err(KeyIndexError::Io { .. }) if how == Some(How::Fail) => {}
            Err(error) => panic!("{error}"),
        }
        None
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Publish { rows, rolled_back } => self.publish(&rows, rolled_back),
            Op::Commit => self.commit(),
            Op::Seal => {
                let durable_to = self.durable_to;
                let sealed = self.index().seal(durable_to);
                self.explained(sealed);
            }
            Op::Poll => {
                let polled = self.index().poll();
                self.explained(polled);
            }
            Op::Flush => {
                let flushed = self.index().flush();
                if self.explained(flushed).is_some() {
                    self.owed.clear();
                }
            }
            Op::Lookup(hash) => self.check(hash),
            Op::Delete(picks) => self.delete(&picks),
            Op::Retire => self.retire(),
            Op::Compact(pick) => self.compact(pick),
            Op::Restart { fault, damage } => self.restart(fault, damage),
        }
        if self.killed {
            self.restart(None, None);
        }
    }

    fn publish(&mut self, rows: &[Option<u64>], rolled_back: bool) {
        let before = self.next_id - 1;
        for hash in rows {
            let id = self.next_id;
            self.next_id += 1;
            if let Some(hash) = *hash {
                self.index().insert(hash, id).unwrap();
                self.rows.insert(id, hash);
                self.ever.insert(Entry { hash, id });
            }
        }
        let last = self.next_id - 1;
        self.index().advance(last);
        if rolled_back {
            self.index().truncate_above(before);
            self.forget_above(before);
        }
    }

    fn forget_above(&mut self, id: u64) {
        self.rows.split_off(&(id + 1));
        self.ever.retain(|entry| entry.id <= id);
        self.next_id = id + 1;
    }

    fn commit(&mut self) {
        self.durable_to = self.next_id - 1;
        let durable_to = self.durable_to;
        let sealed = self.index().maybe_seal(durable_to);
        self.explained(sealed);
    }

    /// Durable rows expire; the others are still being written.
    fn delete(&mut self, picks: &[Index]) {
        for pick in picks {
            let durable: Vec<u64> = self.rows.range(..=self.durable_to).map(|(id, _)| *id).collect();
            if !durable.is_empty() {
                self.rows.remove(pick.get(&durable));
            }
        }
    }

    fn retire(&mut self) {
        let oldest = self.rows.keys().next().map_or(self.durable_to, |id| id - 1);
        self.floor = oldest.min(self.durable_to);
        let floor = self.floor;
        let retired = self.index().retire(floor);
        self.explained(retired);
    }

    fn compact(&mut self, pick: Index) {
        let runs = self.index().runs();
        if runs.is_empty() {
            return;
        }
        let range = pick.get(&runs).range;
        let survivors = self.rows_in(range);
        let begun = self.index().begin_compact(range, survivors);
        self.explained(begun);
    }

    fn rows_in(&self, range: IdRange) -> Vec<Entry> {
        self.rows.range(range.lo + 1..=range.hi).map(|(id, hash)| Entry { hash: *hash, id: *id }).collect()
    }

    fn restart(&mut self, fault: Option<Fault>, damage: Option<(Index, Harm)>) {
        self.index = None;
        self.forget_above(self.durable_to);
        let harmed = damage.is_some_and(|(pick, harm)| self.harm(pick, &harm));
        self.options.fault = fault;
        self.killed = false;
        let recovery = self.start();
        let owed = |gap: &IdRange| self.owed.iter().any(|owed| owed.covers(*gap));
        assert!(harmed || (recovery.damaged.is_empty() && recovery.missing.iter().all(owed)), "{recovery:?}");
        self.owed.extend(recovery.missing);
        (0..1 << BITS).for_each(|hash| self.check(hash));
    }

    /// Opens the index and gives it what it asks for.
    fn start(&mut self) -> Recovery {
        let (index, recovery) = KeyIndex::open(self.dir.path(), self.options.clone(), self.floor).unwrap();
        assert!(recovery.sealed_to <= self.durable_to, "a run speaks of rows that were never durable");
        self.index = Some(index);
        for gap in &recovery.missing {
            let entries = self.rows_in(*gap);
            let rebuilt = self.index().rebuild_run(*gap, &entries);
            if self.explained(rebuilt).is_none() {
                // Killed while rebuilding: the gap is still there, and is found again.
                return self.start_over();
            }
        }
        for (id, hash) in self.rows.clone().split_off(&(recovery.sealed_to + 1)) {
            self.index().insert(hash, id).unwrap();
        }
        let last = self.next_id - 1;
        self.index().advance(last);
        recovery
    }

    fn start_over(&mut self) -> Recovery {
        self.index = None;
        self.options.fault = None;
        self.killed = false;
        self.start()
    }

    /// Damages one of the run files. A flip in a block would only show when it is read, which the damage tests cover; here
    /// it goes to the parts that are checked at open.
    fn harm(&self, pick: Index, harm: &Harm) -> bool {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(self.dir.path()).unwrap().map(|file| file.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "run"));
        paths.sort();
        if paths.is_empty() {
            return false;
        }
        let path = pick.get(&paths);
        let mut bytes = fs::read(path).unwrap();
        match harm {
            Harm::Remove => return fs::remove_file(path).is_ok(),
            Harm::Flip(at) => bytes[at.index(4_096)] ^= 0x10,
            Harm::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
        fs::write(path, bytes).unwrap();
        true
    }

    /// Every row is found, newest first, and nothing that never was.
    fn check(&mut self, hash: u64) {
        let (mut ids, mut maybe) = (Vec::new(), Vec::new());
        self.index().candidates(hash, &mut ids).unwrap();
        assert!(ids.is_sorted_by(|a, b| a > b), "doubled or out of order: {ids:?}");
        for id in self.rows.iter().filter(|row| *row.1 == hash).map(|row| row.0) {
            assert!(ids.contains(id), "id {id} is lost");
        }
        assert!(ids.iter().all(|id| self.ever.contains(&Entry { hash, id: *id })), "invented: {ids:?}");
        self.index().probe(&[hash], &mut maybe);
        assert!(maybe[0] || ids.is_empty(), "a probe denies what is there");
    }

    fn check_all(&mut self) {
        (0..1 << BITS).for_each(|hash| self.check(hash));
        let truth = self.rows_in(IdRange::new(0, self.next_id));
        let verified = self.index().verify(truth).unwrap();
        assert!(verified.is_complete(), "{verified:?}");
    }
}

fn run_history(options: Options, history: Vec<Op>) {
    let mut model = Model::new(options);
    for op in history {
        model.apply(op);
    }
    model.check_all();
    model.restart(None, None);
    model.check_all();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    /// Runs of a few entries: many runs, many merges, a crash at every other turn.
    #[test]
    fn small_runs_agree_with_the_model(options in options(), history in prop::collection::vec(op(12), 1..120)) {
        run_history(options, history);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 500, ..ProptestConfig::default() })]

    /// Runs of many blocks, in which one hash fills more than a block.
    #[test]
    fn large_runs_agree_with_the_model(history in prop::collection::vec(op(1_500), 1..40)) {
        let hasher = KeyHasher::with_bits([0; 16], BITS);
        let options = Options { run_keys: 2_000, merge_fan: 2, max_run_keys: 20_000, ..Options::new(&hasher) };
        run_history(options, history);
    }
}
