//! How the tour is told: printed line by line as it happens, or kept for JSON.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::text::wrap;

/// Who listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// A person, reading as it happens.
    Aloud,
    /// A program, which gets everything at the end.
    Silent,
}

/// One act: calls and their answers, and the promise they were to keep.
#[derive(Debug, Serialize)]
pub(crate) struct Act {
    /// What it is about.
    pub title: String,
    /// What was called and what was answered.
    pub calls: Vec<Call>,
    /// What was promised, and whether it held.
    pub promises: Vec<Promise>,
}

/// One call.
#[derive(Debug, Serialize)]
pub(crate) struct Call {
    /// What was called, with what.
    pub call: String,
    /// What came back.
    pub answer: String,
}

/// One promise.
#[derive(Debug, Serialize)]
pub(crate) struct Promise {
    /// What was promised.
    pub promise: String,
    /// Whether the answers kept it.
    pub held: bool,
}

impl Act {
    /// Whether all of its promises held.
    pub(crate) fn held(&self) -> bool {
        self.promises.iter().all(|p| p.held)
    }
}

/// The tour so far.
#[derive(Debug)]
pub(crate) struct Telling {
    voice: Voice,
    colour: bool,
    acts: Vec<Act>,
}

const BOLD: &str = "1";
const DIM: &str = "2";
const GREEN: &str = "32";
const RED: &str = "31";

impl Telling {
    /// A tour that has not begun.
    pub(crate) fn new(voice: Voice) -> Self {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { voice, colour, acts: Vec::new() }
    }

    /// Says what is about to be seen.
    pub(crate) fn prologue(&self, dir: &Path) -> Result<(), Failure> {
        self.print(&self.paint(BOLD, "Semel: jobs are delivered at least once; their effects happen once."))?;
        self.print(&format!(
            "A real store, in {}. Every answer below is the one it gave just now.",
            dir.display()
        ))
    }

    /// Starts an act.
    pub(crate) fn act(&mut self, title: &str) -> Result<(), Failure> {
        self.acts.push(Act { title: title.into(), calls: Vec::new(), promises: Vec::new() });
        self.print(&format!("\n{}", self.paint(BOLD, &format!("{}. {title}", self.acts.len()))))
    }

    /// Shows a call and its answer.
    pub(crate) fn call(&mut self, call: impl Display, answer: impl Display) -> Result<(), Failure> {
        let (call, answer) = (call.to_string(), answer.to_string());
        self.print(&format!("   {call}"))?;
        for (i, line) in wrap(&answer, 90).iter().enumerate() {
            let arrow = if i == 0 { '→' } else { ' ' };
            self.print(&self.paint(DIM, &format!("     {arrow} {line}")))?;
        }
        self.current().calls.push(Call { call, answer });
        Ok(())
    }

    /// Judges a promise.
    pub(crate) fn promise(&mut self, held: bool, promise: impl Display) -> Result<(), Failure> {
        let promise = promise.to_string();
        let (mark, colour) = if held { ("✓", GREEN) } else { ("✗ BROKEN:", RED) };
        self.print(&self.paint(colour, &format!("   {mark} {promise}")))?;
        self.current().promises.push(Promise { promise, held });
        Ok(())
    }

    /// Says how it ended, and where to go from here.
    pub(crate) fn epilogue(&self) -> Result<(), Failure> {
        let broken = self.acts.iter().filter(|act| !act.held()).count();
        let promises: usize = self.acts.iter().map(|act| act.promises.len()).sum();
        let verdict = match broken {
            0 => self.paint(GREEN, &format!("All {promises} promises held.")),
            _ => self.paint(
                RED,
                &format!("{broken} of {} acts broke a promise: please report it.", self.acts.len()),
            ),
        };
        self.print(&format!("\n{verdict}\n\n{NEXT}"))
    }

    /// Everything that was told.
    pub(crate) fn into_acts(self) -> Vec<Act> {
        self.acts
    }

    fn current(&mut self) -> &mut Act {
        self.acts.last_mut().expect("calls and promises belong to an act that has begun")
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn print(&self, line: &str) -> Result<(), Failure> {
        if self.voice == Voice::Silent {
            return Ok(());
        }
        writeln!(io::stdout().lock(), "{line}").map_err(Failure::io("print"))
    }
}

const NEXT: &str = "\
Where to go next
   semel store --help            look into a store: check, stats, backup, restore, rebuild-index
   semel bench store --quick     what the store does on this machine, in seconds
   make test                     the evidence: conformance, kill loops, power cuts, broken builds
   README.md, ARCHITECTURE.md    what Semel is, and how it is built";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_holds_when_all_its_promises_do() {
        let promise = |held| Promise { promise: String::new(), held };
        let act = |promises| Act { title: String::new(), calls: Vec::new(), promises };
        assert!(act(vec![promise(true), promise(true)]).held());
        assert!(!act(vec![promise(true), promise(false)]).held());
    }
}
