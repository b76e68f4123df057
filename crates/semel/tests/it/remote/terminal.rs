//! What is different where somebody looks on: questions, and colour.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use super::World;

/// A command on a terminal.
struct Session {
    child: Child,
    screen: File,
    seen: String,
}

impl Session {
    fn start(command: &mut Command) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("a terminal");
        let name = ptsname(&screen, Vec::new()).expect("its name").into_string().expect("a name");
        let end = File::options().read(true).write(true).open(name).expect("its other end");
        let another = || end.try_clone().expect("a descriptor");
        command.stdin(another()).stdout(another()).stderr(another());
        let child = command.spawn().expect("it starts");
        // What is left of them here would keep the terminal open after the end of the command.
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        Self { child, screen: File::from(screen), seen: String::new() }
    }

    /// Reads until this is seen.
    fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.read(), "it ended without {text:?}: {}", self.seen);
        }
    }

    /// Reads what comes next. A terminal that nobody else has open any more answers with an error.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let read = self.screen.read(&mut buffer).unwrap_or(0);
        self.seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        read > 0
    }

    fn answer(&mut self, text: &str) {
        self.screen.write_all(text.as_bytes()).expect("it reads");
    }

    fn ended(mut self) -> (Option<i32>, String) {
        while self.read() {}
        (self.child.wait().expect("it ends").code(), self.seen)
    }
}

#[test]
fn what_cannot_be_undone_is_asked_about() {
    let world = World::with_orders();
    for (answer, code, words) in [
        ("n\n", 2, "nothing was changed"),
        ("\n", 2, "nothing was changed"),
        ("y\n", 0, "orders was deleted"),
    ] {
        let mut session = Session::start(&mut world.command(&["queue", "delete", "orders"]));
        session.wait_for("cannot be undone. Do it? [y/N] ");
        assert_eq!(world.api("GET", "/v1/queues/orders", &Value::Null)["name"], "orders");
        session.answer(answer);
        let (ended, seen) = session.ended();
        assert_eq!(ended, Some(code), "{seen}");
        assert!(seen.contains(words), "{seen}");
    }
}

#[test]
fn colour_is_for_those_who_want_it() {
    let world = World::with_orders();
    let id = world.publish("k", &json!(1));
    world.work("ack", &json!({}));
    for (no_color, coloured) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let mut command = world.command(&["job", &id]);
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let (code, seen) = Session::start(&mut command).ended();
        assert_eq!(code, Some(0), "{seen}");
        assert_eq!(seen.contains("\u{1b}[32mcompleted\u{1b}[0m"), coloured, "{no_color:?}: {seen}");
        assert_eq!(seen.contains('\u{1b}'), coloured, "{no_color:?}: {seen}");
    }
    assert!(!world.good(&["job", &id]).contains('\u{1b}'), "a pipe has no colour");
}

#[test]
fn ctrl_c_offers_to_call_a_replay_off() {
    let world = World::with_orders();
    for n in 0..4 {
        world.publish(&format!("k-{n}"), &json!(n));
        world.work("nack", &json!({ "retryable": false }));
    }
    let mut session = Session::start(&mut world.command(&["replay", "--queue", "orders", "--rate", "1"]));
    session.wait_for("replaying orders");
    let pid = i32::try_from(session.child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::INT).expect("it runs");
    session.wait_for("off? [y/N] ");
    session.answer("y\n");
    let (code, seen) = session.ended();
    assert_eq!(code, Some(1), "{seen}");
    let tasks = world.good_json(&["replay", "status"]);
    assert_eq!(tasks["replays"][0]["state"], "cancelled", "{tasks}");
}
