//! The limit: what the disk itself does with the same bytes, appended to a file and fdatasynced once per batch.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use semel_core::publish::Publish;

use crate::failure::Failure;

/// A file that only grows, as the log of a store does.
#[derive(Debug)]
pub(crate) struct RawLog {
    file: File,
    buffer: Vec<u8>,
}

impl RawLog {
    /// Starts an empty file in `dir`, which must be on the disk of the stores it is compared with.
    pub(crate) fn create(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join("raw.log");
        let file = File::create(&path).map_err(Failure::io(format!("create {}", path.display())))?;
        Ok(Self { file, buffer: Vec::new() })
    }

    /// Appends a batch and makes it durable; returns how long that took. Putting the bytes side by side is not counted.
    pub(crate) fn append(&mut self, batch: &[Publish]) -> Result<Duration, Failure> {
        self.buffer.clear();
        batch.iter().for_each(|publish| encode(publish, &mut self.buffer));
        let start = Instant::now();
        self.file.write_all(&self.buffer).map_err(Failure::io("append to the raw log"))?;
        self.file.sync_data().map_err(Failure::io("fdatasync the raw log"))?;
        Ok(start.elapsed())
    }
}

/// The least that a store has to keep of a publish: queue, key and payload.
fn encode(publish: &Publish, buffer: &mut Vec<u8>) {
    let draft = publish.draft();
    buffer.extend_from_slice(draft.queue.as_str().as_bytes());
    buffer.extend_from_slice(draft.key.as_ref().map_or("", |key| key.as_str()).as_bytes());
    buffer.extend_from_slice(draft.payload.bytes());
}

#[cfg(test)]
mod tests {
    use super::super::workload::{BATCH, KEY_BYTES, PAYLOAD_BYTES, Workload};
    use super::*;

    #[test]
    fn the_raw_log_holds_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let batch = Workload::after(0).unwrap().batch(BATCH).unwrap();
        RawLog::create(dir.path()).unwrap().append(&batch).unwrap();
        let written = std::fs::metadata(dir.path().join("raw.log")).unwrap().len();
        assert_eq!(written, (BATCH * (PAYLOAD_BYTES + KEY_BYTES + "bench-00".len())) as u64);
    }
}
