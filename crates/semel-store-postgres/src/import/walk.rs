//! Reading ahead: while one page of jobs is on its way into the database, the next is read.

use semel_core::ids::JobId;
use semel_store::StoreError;
use semel_store::transfer::Source;
use semel_store::working::Stored;
use tokio::task::{JoinHandle, spawn_blocking};

/// Jobs of a bite: enough that a round trip does not count, few enough that a bite takes less than a second.
const BITE_JOBS: usize = 4_000;
/// What they may take in memory, of which there are two bites at a time and a few copies of each.
const BITE_BYTES: usize = 8 << 20;

/// What was read, and the source to read on from.
type Read = (Box<dyn Source>, Result<Vec<Stored>, StoreError>);

/// A walk over all jobs of a source, with the next page on its way.
pub(super) struct Walk {
    reading: JoinHandle<Read>,
}

/// One step of it.
pub(super) enum Step {
    /// The next jobs, and how it goes on.
    Page(Vec<Stored>, Walk),
    /// There are no more. This is the source, to be walked again.
    End(Box<dyn Source>),
}

impl Walk {
    /// Begins above an id.
    pub(super) fn start(mut source: Box<dyn Source>, after: JobId) -> Self {
        let read = move || {
            let page = source.jobs_after(after, BITE_JOBS, BITE_BYTES);
            (source, page)
        };
        Self { reading: spawn_blocking(read) }
    }

    /// The page that was being read. The one after it is begun.
    pub(super) async fn next(self) -> Result<Step, StoreError> {
        let (source, page) =
            self.reading.await.map_err(|e| StoreError::Failed(format!("reading the jobs failed: {e}")))?;
        let page = page?;
        Ok(match page.last().map(|stored| stored.job.id) {
            Some(last) => Step::Page(page, Self::start(source, last)),
            None => Step::End(source),
        })
    }
}
