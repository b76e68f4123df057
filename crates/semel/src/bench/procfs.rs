//! What the kernel counts for us: memory of a process, its time, bytes that went to the disk.

use std::fs;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Resident now (`VmRSS`).
    pub resident: u64,
    /// Resident at the worst moment (`VmHWM`).
    pub peak: u64,
}

/// The memory of the process `pid`, if the kernel tells.
pub(crate) fn memory_of(pid: u32) -> Option<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Memory { resident: number(&status, "VmRSS:")? * 1024, peak: number(&status, "VmHWM:")? * 1024 })
}

/// Time the process `pid` has had the processor for, all its threads together, if the kernel tells.
pub(crate) fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in brackets and may hold anything, so counting starts behind the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// What the scheduler has given a process so far, all its threads together, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Turns {
    /// Time for which it had a processor.
    pub ran: Duration,
    /// Time for which it could have run and another did.
    pub waited: Duration,
}

/// The turns of the process `pid`: nothing, for one that has ended.
pub(crate) fn turns_of(pid: u32) -> Turns {
    let mut turns = Turns::default();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let line = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let mut numbers =
            line.split_whitespace().map_while(|word| word.parse().ok()).map(Duration::from_nanos);
        turns +=
            Turns { ran: numbers.next().unwrap_or_default(), waited: numbers.next().unwrap_or_default() };
    }
    turns
}

/// Time for which the machine's cores had nothing to do, if the kernel tells.
pub(crate) fn idle() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    // user, nice, system, idle, waiting for a disk
    let mut fields = stat.strip_prefix("cpu ")?.split_whitespace().skip(3);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

impl AddAssign for Turns {
    fn add_assign(&mut self, other: Self) {
        self.ran += other.ran;
        self.waited += other.waited;
    }
}

impl Sub for Turns {
    type Output = Self;

    /// What is gone with a thread that ended is gone.
    fn sub(self, before: Self) -> Self {
        Self { ran: self.ran.saturating_sub(before.ran), waited: self.waited.saturating_sub(before.waited) }
    }
}

/// Bytes that a process has written so far, all its threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// Bytes that became dirty and must reach the disk (`write_bytes`).
    ///
    /// The kernel counts pages as they become dirty, so a page that is written again in every commit counts every time,
    /// as it does for the disk. The file system's own journal is not in it.
    pub to_disk: u64,
    /// Bytes handed to `write` (`wchar`): what a file would have grown by if nothing were overwritten.
    pub handed: u64,
}

/// What this process has written, if the kernel tells.
pub(crate) fn written() -> Option<Written> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    Some(Written { to_disk: number(&io, "write_bytes:")?, handed: number(&io, "wchar:")? })
}

impl Written {
    /// What was written since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { to_disk: self.to_disk - before.to_disk, handed: self.handed - before.handed }
    }
}

/// The first number after `field` at the start of a line.
fn number(text: &str, field: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let io = "rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
        assert_eq!(number(io, "write_bytes:"), Some(4096));
        assert_eq!(number("VmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n", "VmRSS:"), Some(1024));
        assert_eq!(number(io, "read_bytes:"), None);
    }

    #[test]
    fn who_works_has_its_turns_and_who_has_ended_has_none() {
        let before = turns_of(std::process::id());
        let mut sum = 0_u64;
        while (turns_of(std::process::id()) - before).ran < Duration::from_millis(2) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0 && idle().is_some());
        assert_eq!(turns_of(u32::MAX), Turns::default());
    }

    #[test]
    fn a_process_knows_its_own_memory() {
        let memory = memory_of(std::process::id()).unwrap();
        assert!(memory.resident > 100_000 && memory.peak >= memory.resident / 2, "{memory:?}");
    }
}
