//! A server and everything it has forked, as the system sees them.

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Error,
    patience::{PATIENCE, until},
};

/// Kills a process and its children at once, as a power cut would. Each of PostgreSQL's processes leads a group of its
/// own, so there is no group to kill.
pub(crate) fn kill_family(parent: u32) -> Result<(), Error> {
    // Stopped first: it forks no more while its children are counted.
    signal(parent, Signal::STOP)?;
    let family = children(parent)?;
    signal(parent, Signal::KILL)?;
    for child in &family {
        // One that ended by itself meanwhile is as dead as the others.
        signal(*child, Signal::KILL).or_else(|error| if alive(*child) { Err(error) } else { Ok(()) })?;
    }
    let gone = || Ok(family.iter().all(|child| !alive(*child)).then_some(()));
    match until(PATIENCE, gone)? {
        Some(()) => Ok(()),
        None => {
            Err(Error::TooLate { what: "death of the backends".into(), limit: PATIENCE, log: String::new() })
        }
    }
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, signal: Signal) -> Result<(), Error> {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id of the system is positive");
    kill_process(id, signal).map_err(|errno| Error::io(format!("signal process {pid}"))(errno.into()))
}

/// The same for one that may have ended by itself since it was found.
pub(crate) fn signal_if_alive(pid: u32, what: Signal) -> Result<(), Error> {
    match signal(pid, what) {
        Err(_) if !alive(pid) => Ok(()),
        signalled => signalled,
    }
}

/// The processes whose parent this is.
pub(crate) fn children(parent: u32) -> Result<Vec<u32>, Error> {
    let all = std::fs::read_dir("/proc").map_err(Error::path("read", "/proc"))?;
    let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    Ok(ids.filter(|id| status(*id).is_some_and(|(_, its_parent)| its_parent == parent)).collect())
}

/// A process that nobody has reaped yet has a number, but neither memory nor files.
fn alive(pid: u32) -> bool {
    status(pid).is_some_and(|(state, _)| state != "Z" && state != "X")
}

/// State and parent of a process. They follow its name, which stands in brackets and may contain anything.
fn status(pid: u32) -> Option<(String, u32)> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = line[line.rfind(')')? + 1..].split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}
