//! Circumstances in which a command cannot do its work: no permission, no space. Root has every permission and an own disk
//! takes root, so either is arranged for the command alone, and where that is not possible it is said.

use std::path::Path;
use std::process::Command;

use crate::server;

/// What keeps root from overriding permissions.
const DROPPED: &str = "-dac_override,-dac_read_search";

/// `semel`, without the right to override permissions.
pub(crate) fn unprivileged() -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        return Some(server::semel());
    }
    let drop = ["--bounding-set", DROPPED, "--inh-caps", DROPPED];
    possible("no permission", Command::new("setpriv").args(drop).arg("true"))?;
    Some(behind(Command::new("setpriv").args(drop)))
}

/// A shell script that is given `semel` as its name, with a disk of so many KiB at `mount`.
pub(crate) fn on_a_small_disk(mount: &Path, kibibytes: u32, script: &str) -> Option<Command> {
    let mounted = format!("mount -t tmpfs -o size={kibibytes}k tmpfs {} && ", mount.display());
    // The mount is seen by nobody else, and goes with its last process.
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c"]).arg(format!("{mounted}{{ {script}; }}"));
        command
    };
    possible("full disk", &mut unshared("true"))?;
    Some(behind(&mut unshared(script)))
}

/// `semel` as the next argument of a command, in an environment without settings.
fn behind(command: &mut Command) -> Command {
    let plain = server::semel();
    let mut whole = Command::new(command.get_program());
    whole.args(command.get_args()).arg(plain.get_program());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    whole
}

fn possible(what: &str, command: &mut Command) -> Option<()> {
    match command.output() {
        Ok(ran) if ran.status.success() => Some(()),
        Ok(ran) => skip(what, &String::from_utf8_lossy(&ran.stderr)),
        Err(error) => skip(what, &error.to_string()),
    }
}

fn skip(what: &str, why: &str) -> Option<()> {
    println!("SKIPPED: {what}: {}", why.trim());
    None
}
