//! The first minute with Semel, in a real terminal of 100 columns: `make run`, and the lines that it prints, typed as they stand.
//!
//! What `make` would build in minutes is there already (see [`super::machine`]); what it starts is the same.

use std::time::{Duration, Instant};

use super::expect::Names;
use super::machine::Machine;
use super::page::{Note, Page};
use super::script::steps;

const DEADLINE: Duration = Duration::from_secs(60);

/// tmux, with a window for each terminal of the story.
struct Screens<'a> {
    machine: &'a Machine,
}

impl Screens<'_> {
    fn tmux(&self, args: &[&str]) -> String {
        let socket = self.machine.home().join(".tmux");
        let mut command = self.machine.command("tmux");
        command.arg("-S").arg(socket).args(["-f", "/dev/null"]).args(args);
        let ran = command.output().expect("tmux");
        assert!(ran.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("text")
    }

    fn open(&self, name: &str) {
        let home = self.machine.home().to_str().expect("a path");
        let shell = ["-n", name, "-c", home, "env PS1='$ ' bash --norc --noprofile"];
        if name == "first" {
            self.tmux(&[&["new-session", "-d", "-x", "100", "-y", "60"], &shell[..]].concat());
        } else {
            self.tmux(&[&["new-window"], &shell[..]].concat());
        }
        self.wait(name, |screen| screen.ends_with('$'));
    }

    fn type_in(&self, name: &str, text: &str) {
        for line in text.lines() {
            self.tmux(&["send-keys", "-t", name, "-l", line]);
            self.tmux(&["send-keys", "-t", name, "Enter"]);
        }
    }

    /// What is to be seen, without the empty lines below it. Joined: as somebody gets it who copies a long line.
    fn screen(&self, name: &str, joined: bool) -> String {
        let how: &[&str] = if joined { &["-J"] } else { &[] };
        let seen = self.tmux(&[&["capture-pane", "-p", "-t", name][..], how].concat());
        seen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    fn wait(&self, name: &str, right: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let seen = self.screen(name, true);
            if right(&seen) {
                return seen;
            }
            assert!(start.elapsed() < DEADLINE, "what the test waits for does not come:\n{seen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types a command and waits for its end; what it printed.
    fn run(&self, name: &str, command: &str) -> String {
        self.tmux(&["send-keys", "-t", name, "-l", "clear; "]);
        self.type_in(name, command);
        let seen = self.wait(name, |screen| screen.ends_with('$') && !screen.contains("clear; "));
        seen.trim_end_matches('$').trim_end().to_owned()
    }
}

/// The commands on a screen: indented lines that are no comments; a backslash at the end goes on.
fn commands(screen: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for line in
        screen.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with('#'))
    {
        match commands.last_mut().filter(|last| last.ends_with('\\')) {
            Some(last) => *last = format!("{last}\n{line}"),
            None => commands.push(line.to_owned()),
        }
    }
    commands
}

/// The first word with this beginning.
fn word<'a>(text: &'a str, beginning: &str) -> &'a str {
    let apart = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split(apart)
        .find(|word| word.starts_with(beginning))
        .unwrap_or_else(|| panic!("no {beginning}…: {text}"))
}

/// What the README says that the server's terminal shows: after `make run`, and after the commands.
fn told() -> [Vec<String>; 2] {
    let page = Page::read("README.md");
    let blocks = page.blocks();
    let server = blocks.iter().filter(|block| block.note == Some(Note::Terminal("server".into())));
    let outputs: Vec<_> = server.map(|block| steps(block).remove(0).output).collect();
    outputs.try_into().expect("two blocks of the README are the server's terminal")
}

#[test]
fn from_make_run_to_a_delivered_job() {
    let machine = match Machine::start() {
        Ok(machine) => machine,
        Err(why) => return println!("SKIPPED: the first minute: {why}"),
    };
    let screens = Screens { machine: &machine };
    let [welcome, journal] = told();
    screens.open("first");
    screens.type_in("first", "make run");
    let printed = screens.wait("first", |screen| screen.contains("Ctrl-C ends it"));
    assert_eq!(printed, screens.screen("first", false), "a line is wider than the terminal");
    let mut names = Names::default();
    let lines: Vec<_> = printed.lines().skip(1).collect();
    assert!(
        names.match_lines(&welcome, &lines, true),
        "the README shows\n{}\n\nbut\n{printed}",
        welcome.join("\n")
    );

    let commands = commands(&printed);
    let [server, auth, publish, lease, ack, publish_other, key, _listen] = &commands[..] else {
        panic!("eight commands to try: {commands:#?}")
    };
    screens.open("second");
    screens.type_in("second", &format!("{server}\n{auth}"));
    let first = screens.run("second", publish);
    assert!(first.contains(r#""deduplicated":false"#), "{first}");
    let second = screens.run("second", publish);
    assert!(second.contains(r#""deduplicated":true"#) && second.contains(word(&first, "job_")), "{second}");
    let leased = screens.run("second", lease);
    let filled = ack.replace("JOB_ID", word(&leased, "job_")).replace("LEASE", word(&leased, "lse_"));
    let settled = screens.run("second", &filled);
    assert!(settled.contains(r#""status":"completed""#), "{settled}");

    let published = screens.run("second", publish_other);
    assert!(published.contains("was published to orders"), "{published}");
    let answer = screens.run("second", key);
    assert!(
        answer.contains("order-1 in orders: completed once") && answer.contains("suppressed"),
        "{answer}"
    );

    let seen = screens.wait("first", |screen| {
        let lines: Vec<_> = screen.lines().collect();
        names.clone().match_lines(&[vec!["...".to_owned()], journal.clone()].concat(), &lines, true)
    });
    assert!(seen.contains("order-1"), "{seen}");
}
