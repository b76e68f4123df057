//! A little machine for one page: its own network, processes, `/var/lib` and `/etc`, so that a page's commands can be run
//! as they are written, on the ports and paths that they name, beside those of all other pages.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::page::root;

/// Namespaces, and the process that keeps them. All that runs in them ends with it.
pub(super) struct Machine {
    keeper: Child,
    home: TempDir,
    /// Whether we are root only in there.
    mapped: bool,
}

/// What the machine does before anything else. `/var/lib` and `/etc` are in memory, so that no page waits for a disk that
/// other tests keep busy; names that pages use for servers lead to the machine itself.
const SETUP: &str = r#"
set -e
ip link set lo up
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /mnt
cp -a /etc/. /mnt
mount --move /mnt /etc
echo '127.0.0.1 localhost db db.internal semel.internal' > /etc/hosts
echo ready
exec cat
"#;

impl Machine {
    /// Starts one, or says why that is not possible here.
    pub(super) fn start() -> Result<Self, String> {
        let home = tempfile::tempdir().expect("a directory");
        furnish(home.path()).expect("a directory can be filled");
        let mapped = !rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        if mapped {
            command.arg("--map-root-user");
        }
        command.args(["bash", "-c", SETUP]).env("HOME", home.path()).stdin(Stdio::piped());
        let mut keeper =
            command.stdout(Stdio::piped()).spawn().map_err(|e| format!("unshare cannot be started: {e}"))?;
        let mut said = String::new();
        let stdout = keeper.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut said).map_err(|e| e.to_string())?;
        let machine = Self { keeper, home, mapped };
        if said == "ready\n" { Ok(machine) } else { Err("no namespaces can be made here".into()) }
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A program that will run in there, without what the environment of the test might say.
    pub(super) fn command(&self, program: &str) -> Command {
        let namespace = |name: &str| format!("/proc/{}/ns/{name}", self.keeper.id());
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", namespace("net")));
        command.arg(format!("--mount={}", namespace("mnt")));
        command.arg(format!("--pid={}", namespace("pid_for_children")));
        if self.mapped {
            command.arg(format!("--user={}", namespace("user"))).arg("--preserve-credentials");
        }
        command.arg(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SEMEL_")) {
            command.env_remove(name);
        }
        let path = std::env::var("PATH").expect("a PATH");
        command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", self.home().join(".bin").display()));
        command.env("HOME", self.home()).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").env("TERM", "dumb");
        command.env("NO_COLOR", "1");
        command
    }
}

/// What is there: `semel` on the PATH, and as much of a checkout as pages use. An optimised build takes minutes, so that
/// `make run` is told to take the program that is tested for it.
fn furnish(home: &Path) -> io::Result<()> {
    let semel = Path::new(env!("CARGO_BIN_EXE_semel"));
    let built = format!("target/{}", profile_of_make_run()?);
    for dir in [".bin", &built] {
        fs::create_dir_all(home.join(dir))?;
        symlink(semel, home.join(dir).join("semel"))?;
    }
    symlink(root().join("examples"), home.join("examples"))?;
    let make = home.join(".bin/make");
    fs::write(&make, format!("#!/bin/sh\n[ \"$*\" = run ] && exec {built}/semel dev\n"))?;
    fs::set_permissions(make, fs::Permissions::from_mode(0o755))
}

/// Where `make run` builds: the first page names the program by its path.
fn profile_of_make_run() -> io::Result<String> {
    let makefile = fs::read_to_string(root().join("Makefile"))?;
    let run =
        makefile.lines().find(|line| line.ends_with("-p semel -- dev")).expect("make run starts `semel dev`");
    let profile = run.split_once("--profile ").and_then(|(_, rest)| rest.split(' ').next());
    Ok(profile.expect("make run names a profile").to_owned())
}

impl Drop for Machine {
    fn drop(&mut self) {
        // One that has ended already cannot be killed; that is what is wanted.
        drop(self.keeper.kill());
        drop(self.keeper.wait());
    }
}
