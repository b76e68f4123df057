//! Checking a store: every record's checksum, the derived tables against the truth, the key index against the truth, the
//! counts against both, and the pages of the file.
//!
//! Memory stays bounded whatever the size of the store: jobs and their progress are read side by side in id order.

mod findings;
mod jobs;
mod lists;

use std::path::Path;

use semel_store::StoreError;

use crate::Options;
use crate::db::Db;
use crate::engine::key_hasher;
use crate::fault::Fault;
use crate::keys::{self, KeyIndex};
use crate::maintenance::{Held, Progress, Watcher, estimate_jobs};
use crate::schema::{KEYS_DIR, meta};

pub use findings::{CheckReport, Findings};

/// Checks the store in `dir`. Nobody else may have it open. The database is left as it is; a run of the key index that
/// cannot be opened is set aside, so that the next open rebuilds it.
pub fn check(dir: &Path, watch: Watcher<'_>) -> Result<CheckReport, StoreError> {
    let held = Held::take(dir)?;
    let mut found = Findings::default();
    let report = run(&held, dir, &mut found, watch);
    match report {
        Ok(report) => Ok(report),
        // The database itself cannot be walked: that is the finding.
        Err(fault) => {
            found.add(format!("the check could not go on: {fault}"));
            Ok(CheckReport { findings: found, ..CheckReport::default() })
        }
    }
}

fn run(held: &Held, dir: &Path, found: &mut Findings, watch: Watcher<'_>) -> Result<CheckReport, Fault> {
    let db = Db::prepare(&held.conn)?;
    let hasher = key_hasher(&db, &Options::default())?;
    let (mut index, recovery) =
        KeyIndex::open(&dir.join(KEYS_DIR), keys::Options::new(&hasher), db.meta(meta::FLOOR)?)?;
    for damage in &recovery.damaged {
        found.add(format!("key index: {} was damaged and set aside: {}", damage.path.display(), damage.what));
    }
    for gap in &recovery.missing {
        found.add(format!("key index: jobs {gap} are not covered by any run; the next open rebuilds them"));
        crate::engine::rebuild(&db, &mut index, *gap, &hasher)?;
    }
    let queues = lists::queues(&held.conn, found)?;
    let total = estimate_jobs(&held.conn)?;
    let mut truth = jobs::Truth::new(queues, id_of(db.meta(meta::SEALED_TO)?));
    jobs::insert_tail(&held.conn, &mut index, recovery.sealed_to, &hasher, found)?;
    let verified = jobs::walk(&held.conn, &index, &hasher, &mut truth, found, total, watch)?;
    lists::check(&held.conn, &truth, found)?;
    truth.compare_counts(found);
    watch(Progress { step: "checking pages", done: 0, total: 1 });
    lists::pages(&held.conn, found)?;
    watch(Progress { step: "checking pages", done: 1, total: 1 });
    Ok(CheckReport {
        jobs: truth.jobs,
        unfinished: truth.unfinished(),
        keys: verified.checked,
        index_garbage: verified.garbage,
        findings: std::mem::take(found),
    })
}

fn id_of(raw: u64) -> semel_core::JobId {
    semel_core::JobId::from_raw(raw).unwrap_or(semel_core::JobId::ZERO)
}
