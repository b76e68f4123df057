//! A process whose wall clock is wrong, by libfaketime.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that answers for the clock, from the Debian package `faketime`.
pub(crate) fn library() -> io::Result<PathBuf> {
    let found = fs::read_dir("/usr/lib")?.flatten().map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    found
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| io::Error::other("libfaketime is not installed"))
}

/// Has the process ask the library for the wall clock, which reads how far to jump from `file`.
pub(crate) fn with_clock<'a>(command: &'a mut Command, library: &Path, file: &Path) -> &'a mut Command {
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", file).env("FAKETIME_NO_CACHE", "1");
    // The monotonic clock is the machine's own: only the wall clock can be set.
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1")
}

/// Sets the clock that `file` is for off by this much from now on.
pub(crate) fn jump(file: &Path, by: &str) {
    // Replaced in one step: a reader must not meet an empty file.
    let new = file.with_extension("new");
    fs::write(&new, by).unwrap();
    fs::rename(new, file).unwrap();
}
