//! A shell that is given the commands of a page, one after the other.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::machine::Machine;

/// Longer than any command of a page takes.
const DEADLINE: Duration = Duration::from_secs(30);

/// Encloses the exit code of a command in the output. No page has this character.
const MARK: char = '\u{1e}';

/// Screens are this wide in our pages.
const COLUMNS: u16 = 100;

pub(super) struct Terminal {
    shell: Child,
    stdin: ChildStdin,
    output: Receiver<Vec<u8>>,
    /// What was printed and not yet taken.
    heard: Vec<u8>,
    /// The shell's own number on its machine.
    pid: String,
}

/// How a command ended.
pub(super) struct Ended {
    pub(super) printed: String,
    pub(super) code: i32,
}

impl Terminal {
    /// A shell whose output goes into a pipe, as that of a script would.
    pub(super) fn piped(machine: &Machine) -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        Self::start(machine, reader, writer.into())
    }

    /// A shell whose output goes to a screen, for programs that speak otherwise to people.
    pub(super) fn screen(machine: &Machine) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("a terminal");
        let name = ptsname(&screen, Vec::new()).expect("its name").into_string().expect("a name");
        let writer = std::fs::File::options().read(true).write(true).open(name).expect("its other end");
        let mut modes = tcgetattr(&writer).expect("its modes");
        modes.output_modes.remove(OutputModes::OPOST);
        tcsetattr(&writer, OptionalActions::Now, &modes).expect("its modes");
        let size = Winsize { ws_row: 50, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&writer, size).expect("its size");
        Self::start(machine, std::fs::File::from(screen), writer.into())
    }

    fn start(machine: &Machine, reader: impl Read + Send + 'static, writer: OwnedFd) -> Self {
        let mut command = machine.command("bash");
        command.args(["--norc", "--noprofile"]).stdin(Stdio::piped());
        command.stdout(writer.try_clone().expect("a descriptor")).stderr(writer);
        let mut shell = command.spawn().expect("a shell");
        // The descriptors for the shell go with the command, so that the end of the shell is the end of the output.
        drop(command);
        let stdin = shell.stdin.take().expect("a pipe");
        let (sender, output) = channel();
        thread::spawn(move || forward(reader, |bytes| sender.send(bytes).is_ok()));
        let mut terminal = Self { shell, stdin, output, heard: Vec::new(), pid: String::new() };
        terminal.pid = terminal.run("cd; echo $$").printed;
        terminal
    }

    fn send(&mut self, text: &str) {
        self.stdin.write_all(text.as_bytes()).expect("the shell reads");
    }

    /// Runs a command to its end.
    pub(super) fn run(&mut self, command: &str) -> Ended {
        self.begin(command);
        let text = self.wait(|text| text.matches(MARK).count() == 2);
        let text = text.unwrap_or_else(|text| panic!("{command}\nhas not ended after {DEADLINE:?}:\n{text}"));
        self.heard.clear();
        let mut parts = text.split(MARK);
        let printed = parts.next().unwrap_or_default().to_owned();
        let code = parts.next().and_then(|code| code.parse().ok()).expect("an exit code");
        Ended { printed, code }
    }

    /// Begins a command that goes on. Its exit code stays `$?` for the next one.
    pub(super) fn begin(&mut self, command: &str) {
        let mark = "__code=$?; printf '\\036%d\\036\\n' $__code; (exit $__code)";
        self.send(&format!("{{\n{command}\n}} </dev/null\n{mark}\n"));
    }

    /// Waits until what was printed so far is right, or gives back what was printed instead.
    pub(super) fn wait(&mut self, mut right: impl FnMut(&str) -> bool) -> Result<String, String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let text = seen(&self.heard);
            if right(&text) {
                return Ok(text);
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.heard.extend(bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(text),
            }
        }
    }

    /// Ctrl-C: a signal for everything that was started here and still runs.
    pub(super) fn interrupt(&mut self, machine: &Machine) {
        // Some may end by themselves before it is their turn.
        let all =
            "below() { for one in $(pgrep -P $1); do below $one; kill -INT $one 2>&1; done; }; below $1";
        let sent = machine.command("bash").args(["-c", all, "below", self.pid.trim()]).output();
        sent.expect("a shell");
        let ended = self.wait(|text| text.matches(MARK).count() == 2);
        ended.unwrap_or_else(|text| panic!("what runs here does not end:\n{text}"));
        self.heard.clear();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Its machine ends what it started.
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}

/// What somebody sees of it: no colours.
fn seen(bytes: &[u8]) -> String {
    static COLOUR: LazyLock<Regex> = LazyLock::new(|| Regex::new("\u{1b}\\[[0-9;]*m|\r").expect("a pattern"));
    COLOUR.replace_all(&String::from_utf8_lossy(bytes), "").into_owned()
}

fn forward(mut reader: impl Read, send: impl Fn(Vec<u8>) -> bool) {
    let mut buffer = vec![0; 1 << 16];
    // A screen whose other end is closed answers with an error instead of an end.
    while let Ok(length @ 1..) = reader.read(&mut buffer)
        && send(buffer[..length].to_vec())
    {}
}
