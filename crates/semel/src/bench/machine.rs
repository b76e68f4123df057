//! Where a benchmark ran: figures without their machine are rumours.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::statvfs;
use serde::Serialize;

use crate::failure::Failure;
use crate::text;

/// The machine, as far as it describes itself.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// The processor.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: String,
    /// The file system that the stores were on.
    pub file_system: String,
    /// The device under it.
    pub device: String,
    /// Processes that wanted to run in the minute before the benchmark.
    pub load: f64,
    /// Whether this is an optimised build.
    pub optimised: bool,
}

impl Machine {
    /// Describes this machine, and the file system of `dir`.
    pub(crate) fn describe(dir: &Path) -> Self {
        let (file_system, device) = mount_of(dir).unwrap_or_else(|| ("unknown".into(), "unknown".into()));
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes().unwrap_or(0),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            file_system,
            device,
            load: load().unwrap_or(0.0),
            optimised: !cfg!(debug_assertions),
        }
    }

    /// Whether the directory is in memory, where an fsync costs nothing and the figures mean nothing.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.file_system.as_str(), "tmpfs" | "ramfs")
    }

    /// Whether others kept the machine busy when the benchmark began.
    pub(crate) fn is_busy(&self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 cores")]
        let cores = self.cores as f64;
        self.load > cores / 2.0
    }

    /// One line for people.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{}, {} cores, {} memory, Linux {}, {} on {}{}",
            self.cpu,
            self.cores,
            text::bytes(self.memory_bytes),
            self.kernel,
            self.file_system,
            self.device,
            if self.optimised { "" } else { ", DEBUG BUILD" },
        )
    }
}

/// Refuses a run that the disk cannot hold, before it has taken minutes.
pub(crate) fn require_space(dir: &Path, needed: u64) -> Result<(), Failure> {
    let disk = statvfs(dir).map_err(|e| Failure::Io {
        what: format!("ask {} for its space", dir.display()),
        source: e.into(),
    })?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < needed {
        return Err(Failure::Usage(format!(
            "{} has {} free, this run needs about {}: name another directory with --dir, or fewer --keys",
            dir.display(),
            text::bytes(free),
            text::bytes(needed),
        )));
    }
    Ok(())
}

/// The commit of the working directory, marked when files differ from it.
pub(crate) fn commit() -> String {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok());
    described.map_or_else(|| "unknown".into(), |text| text.trim().to_owned())
}

/// The value of `name : value` in a file of `/proc`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (_, value) = text.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn memory_bytes() -> Option<u64> {
    let text = field("/proc/meminfo", "MemTotal")?;
    Some(text.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// File system and device of the mount that holds `dir`: the longest mount point that is a prefix of it.
fn mount_of(dir: &Path) -> Option<(String, String)> {
    let dir = dir.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts
        .lines()
        .filter_map(read_mount)
        .filter(|m| dir.starts_with(m.0))
        .max_by_key(|m| m.0.len())
        .map(|m| (m.1.into(), m.2.into()))
}

/// Mount point, file system and device of a line of `mountinfo`: a dash separates what the kernel added later.
fn read_mount(line: &str) -> Option<(&str, &str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut kind = right.split(' ');
    Some((left.split(' ').nth(4)?, kind.next()?, kind.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue";
        assert_eq!(read_mount(line), Some(("/mnt2", "ext4", "/dev/sda1")));
        assert_eq!(read_mount("nonsense"), None);
    }

    #[test]
    fn a_directory_in_memory_is_recognised() {
        let machine = Machine::describe(Path::new("/dev/shm"));
        assert!(machine.is_in_memory(), "{}", machine.summary());
        assert!(!Machine::describe(Path::new("/proc")).is_in_memory());
    }

    #[test]
    fn a_run_that_cannot_fit_is_refused() {
        assert!(require_space(Path::new("/"), 1).is_ok());
        let refusal = require_space(Path::new("/"), u64::MAX).unwrap_err().to_string();
        assert!(refusal.contains("--dir"), "{refusal}");
    }
}
