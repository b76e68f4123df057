//! `semel backup` and `semel restore`: a store as it was at one moment, and a store made from it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use semel_store::StoreError;
use semel_store_embedded::Watcher;
use semel_store_embedded::backup::{backup, restore};
use semel_store_embedded::inspect::inspect;
use serde_json::json;

use super::store::watch::Watch;
use super::{EXIT_CODES, Outcome, print, print_json};
use crate::failure::Failure;
use crate::{opening, text};

const BACKUP_EXAMPLES: &str = "\
The copy is the store as it was at one moment, and a store itself: it can be checked, and opened
after a restore. Publishing goes on meanwhile. The key index is not copied; it is made anew from
the jobs. A database is backed up by its own means: see docs/operations/postgres.md.

Examples:
  semel backup /var/lib/semel /backup/monday
  semel store check /backup/monday                      a backup that was never checked is a hope";

const RESTORE_EXAMPLES: &str = "\
The store is as it was when the backup was made: jobs published since are not in it, and jobs
settled since will be delivered again. Lease tokens handed out since are void. The backup is left
as it is.

Examples:
  semel restore /backup/monday /var/lib/semel-new
  semel store check /var/lib/semel-new
  semel serve --data /var/lib/semel-new";

/// Copy a store as it is at one moment; it may be in use
#[derive(Debug, Args)]
#[command(after_help = format!("{BACKUP_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    copy: Copy,
}

/// Make a store from a backup
#[derive(Debug, Args)]
#[command(after_help = format!("{RESTORE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    copy: Copy,
}

/// From one directory to another.
#[derive(Debug, Args)]
struct Copy {
    /// The directory to copy from
    from: PathBuf,
    /// The directory to make; it must be empty or absent
    to: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl BackupArgs {
    /// Copies a store.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        self.copy.must_be_directories("pg_dump, or a base backup with its WAL")?;
        self.copy.make("backed up", |from, to, watch| backup(from, to, watch))
    }
}

impl RestoreArgs {
    /// Makes a store from a backup.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        self.copy.must_be_directories("pg_restore, or recovery from a base backup")?;
        self.copy.make("restored", |from, to, watch| restore(from, to, watch))
    }
}

impl Copy {
    /// A database is not ours to copy: PostgreSQL's own means know what a consistent copy of it is.
    fn must_be_directories(&self, instead: &str) -> Result<(), Failure> {
        for place in [&self.from, &self.to].map(|place| place.to_string_lossy()) {
            if place.starts_with("postgres://") || place.starts_with("postgresql://") {
                let name = opening::database_name(&place)?;
                return Err(Failure::Usage(format!(
                    "{name} is a database, and this is for directories: use {instead}; see docs/operations/postgres.md"
                )));
            }
        }
        Ok(())
    }

    /// Copies, and says what was copied, as the copy itself has it.
    fn make(
        &self,
        done: &str,
        copy: impl FnOnce(&Path, &Path, Watcher<'_>) -> Result<(), StoreError>,
    ) -> Result<Outcome, Failure> {
        let Self { from, to, json } = self;
        let (start, mut watch) = (Instant::now(), Watch::new());
        let copied = copy(from, to, &mut |seen| watch.see(seen));
        watch.finish();
        copied.map_err(Failure::store(from))?;
        let bytes = inspect(to).map_err(Failure::store(to))?.database_bytes;
        if *json {
            let seconds = start.elapsed().as_secs_f64();
            print_json(&json!({ "from": from, "to": to, "bytes": bytes, "seconds": seconds }))?;
        } else {
            let (size, took) = (text::bytes(bytes), text::span(start.elapsed()));
            print(&format!("{} {done} to {}: {size} in {took}\n", from.display(), to.display()))?;
        }
        Ok(Outcome::Good)
    }
}
