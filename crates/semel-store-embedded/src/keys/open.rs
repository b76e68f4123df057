//! Opening a directory of runs: what is whole is used, what a crash left is swept, what is damaged is named.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::KeyIndexError;
use super::options::Options;
use super::range::IdRange;
use super::run::Run;
use super::worker::unlink;
use super::writer::sync_dir;

/// What was found when an index was opened, and what its owner has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The highest id of any run (or the floor). Every keyed row above it MUST be inserted again.
    pub sealed_to: u64,
    /// The ranges below it that no run covers, oldest first. Each MUST be rebuilt; lookups are refused until then.
    pub missing: Vec<IdRange>,
    /// The files that could not be trusted. They were set aside, and what they covered is missing or to be inserted.
    pub damaged: Vec<Damage>,
}

/// A run file that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it is now.
    pub path: PathBuf,
    /// The ids it claimed to cover, if its name said.
    pub range: Option<IdRange>,
    /// What gave it away.
    pub what: String,
}

/// The runs in `dir` that can be trusted, oldest first, and what is to be done about the rest.
pub(super) fn load(dir: &Path, options: &Options, floor: u64) -> Result<(Vec<Run>, Recovery), KeyIndexError> {
    fs::create_dir_all(dir).map_err(|source| KeyIndexError::io(dir, "create", source))?;
    let mut damaged = Vec::new();
    let mut found = Vec::new();
    for path in run_files(dir)? {
        match open_one(&path, options, floor) {
            Ok(run) => found.extend(run),
            Err(KeyIndexError::Corrupt { what, .. }) => damaged.push(set_aside(&path, what)?),
            Err(error) => return Err(error),
        }
    }
    let runs = chain(dir, found, &mut damaged)?;
    let sealed_to = runs.last().map_or(floor, |run| run.range().hi);
    let missing = gaps(&runs, floor);
    for gap in &missing {
        tracing::warn!(range = %gap, "a range of the key index is missing and must be rebuilt from the rows");
    }
    Ok((runs, Recovery { sealed_to, missing, damaged }))
}

/// The run files of the directory. Temporary files are what a crash or a close left, and go.
fn run_files(dir: &Path) -> Result<Vec<PathBuf>, KeyIndexError> {
    let list = |source| KeyIndexError::io(dir, "list", source);
    let mut paths = Vec::new();
    for file in fs::read_dir(dir).map_err(list)? {
        let path = file.map_err(list)?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("run") => paths.push(path),
            Some("tmp") => unlink(&path),
            _ => {}
        }
    }
    paths.sort();
    Ok(paths)
}

/// Opens a run, unless all its rows are gone.
fn open_one(path: &Path, options: &Options, floor: u64) -> Result<Option<Run>, KeyIndexError> {
    let Some(range) = named_range(path) else {
        return Err(KeyIndexError::corrupt(path, "its name is not that of a key run"));
    };
    if range.hi <= floor {
        unlink(path);
        return Ok(None);
    }
    Run::open(path, range, options).map(Some)
}

fn named_range(path: &Path) -> Option<IdRange> {
    IdRange::of_file_name(path.file_name()?.to_str()?)
}

/// Leaves the runs that do not overlap. A run covered by another was merged into it, and its unlinking was cut short. An
/// overlap of any other kind never comes of our own work, so the later of the two is not believed.
fn chain(dir: &Path, mut found: Vec<Run>, damaged: &mut Vec<Damage>) -> Result<Vec<Run>, KeyIndexError> {
    found.sort_by_key(|run| (run.range().lo, Reverse(run.range().hi)));
    let mut kept: Vec<Run> = Vec::new();
    let mut obsolete = Vec::new();
    for run in found {
        match kept.last().map(Run::range) {
            Some(last) if last.covers(run.range()) => obsolete.push(run),
            Some(last) if run.range().lo < last.hi => {
                damaged.push(set_aside(run.path(), format!("it overlaps the run over {last}"))?);
            }
            _ => kept.push(run),
        }
    }
    if !obsolete.is_empty() {
        // The crash may have come before the name of the merged run was durable; it must be before the others go.
        sync_dir(dir)?;
        obsolete.iter().for_each(|run| unlink(run.path()));
    }
    Ok(kept)
}

/// The ranges above the floor, and below the last run, that no run covers.
fn gaps(runs: &[Run], floor: u64) -> Vec<IdRange> {
    let mut covered_to = floor;
    let mut gaps = Vec::new();
    for range in runs.iter().map(Run::range) {
        if range.lo > covered_to {
            gaps.push(IdRange::new(covered_to, range.lo));
        }
        covered_to = range.hi;
    }
    gaps
}

/// Renames a file that cannot be trusted, so that it is out of the way and yet there for whoever wants to know why.
fn set_aside(path: &Path, what: String) -> Result<Damage, KeyIndexError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    fs::rename(path, &aside).map_err(|source| KeyIndexError::io(path, "set aside", source))?;
    tracing::warn!(path = %aside.display(), what, "a damaged key run was set aside");
    Ok(Damage { path: aside, range: named_range(path), what })
}
