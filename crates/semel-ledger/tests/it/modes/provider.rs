//! A service outside. It lives in a directory, so that workers in other processes have the same one.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file for every job, with a line for every charge; and a file for every idempotency key it remembers.
#[derive(Debug, Clone)]
pub(crate) struct Provider {
    directory: PathBuf,
}

impl Provider {
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Charges, whatever happened before.
    pub(crate) fn charge(&self, job: &str) -> u64 {
        let mut file = OpenOptions::new().append(true).create(true).open(self.charges(job)).unwrap();
        file.write_all(b"x").unwrap();
        7
    }

    /// Charges, unless it remembers the key: then it answers as it did before.
    pub(crate) fn charge_once(&self, job: &str, key: &str) -> u64 {
        match File::create_new(self.directory.join(key)) {
            Ok(_) => self.charge(job),
            Err(_) => 7,
        }
    }

    /// The charge of a job, if there is one.
    pub(crate) fn find(&self, job: &str) -> Option<u64> {
        (self.count(job) > 0).then_some(7)
    }

    pub(crate) fn count(&self, job: &str) -> u64 {
        std::fs::metadata(self.charges(job)).map_or(0, |file| file.len())
    }

    fn charges(&self, job: &str) -> PathBuf {
        self.directory.join(format!("charges of {}", job.replace('/', " ")))
    }
}
