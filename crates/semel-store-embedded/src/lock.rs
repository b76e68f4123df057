//! One process per directory: a lock file that the kernel lets go of when its holder dies.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use semel_store::StoreError;

/// Name of the lock file.
pub(crate) const LOCK_FILE: &str = "semel.lock";

/// Holds the directory while it lives.
#[derive(Debug)]
pub(crate) struct DirLock(#[expect(dead_code, reason = "the lock is held as long as the file is open")] File);

impl DirLock {
    /// Takes the directory, or says who has it.
    pub(crate) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(LOCK_FILE);
        let refuse =
            |e: &dyn std::fmt::Display| StoreError::Open(format!("cannot lock {}: {e}", path.display()));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| refuse(&e))?;
        if let Err(e) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if e != rustix::io::Errno::WOULDBLOCK {
                return Err(refuse(&e));
            }
            let mut holder = String::new();
            // Who holds it is only a help to the reader: the refusal stands without it.
            let named = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let by = if named { format!(" by process {}", holder.trim()) } else { String::new() };
            return Err(StoreError::Open(format!(
                "{} is in use{by}: one process at a time may open a store; stop the other or use another directory",
                dir.display()
            )));
        }
        let note = |file: &mut File| {
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())
        };
        note(&mut file).map_err(|e| refuse(&e))?;
        Ok(Self(file))
    }
}
