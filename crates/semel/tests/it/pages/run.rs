//! Runs the commands of a page from top to bottom, and compares what they print with what the page says. With
//! `SEMEL_BLESS=1` what is printed is written into the page; look at it before you believe it.

use std::collections::HashMap;
use std::fmt::Write;

use super::expect::Names;
use super::machine::Machine;
use super::page::{Block, Note, Page, root};
use super::script::{Step, steps};
use super::terminal::Terminal;

/// Where blocks without a name run.
const HERE: &str = "";

/// A page on its machine.
struct Reader<'a> {
    page: &'a Page,
    machine: Machine,
    terminals: HashMap<String, Terminal>,
    names: Names,
    blessed: Vec<Edit>,
}

/// Lines of the page that are to be replaced.
struct Edit {
    /// Counted from 0.
    from: usize,
    count: usize,
    lines: Vec<String>,
}

/// Runs a page of the repository.
pub(super) fn page(name: &str) {
    match Machine::start() {
        Ok(machine) => read(&Page::read(name), machine),
        Err(why) => println!("SKIPPED: the commands of the pages: {why}"),
    }
}

/// Runs a page on a machine.
fn read(page: &Page, machine: Machine) {
    super::given::prepare(page, &machine);
    let (terminals, names) = (HashMap::new(), Names::default());
    let mut reader = Reader { page, machine, terminals, names, blessed: Vec::new() };
    for block in page.blocks().iter().filter(|block| block.language == "console") {
        reader.block(block);
    }
    bless(page, reader.blessed);
}

/// Writes what was printed into the page.
fn bless(page: &Page, edits: Vec<Edit>) {
    if edits.is_empty() {
        return;
    }
    let mut lines: Vec<_> = page.text.lines().map(str::to_owned).collect();
    for Edit { from, count, lines: new } in edits.into_iter().rev() {
        lines.splice(from..from + count, new);
    }
    std::fs::write(root().join(&page.name), lines.join("\n") + "\n").expect("the page can be written");
}

impl Reader<'_> {
    fn block(&mut self, block: &Block) {
        let name = match &block.note {
            Some(Note::NotRun(_)) => return,
            Some(Note::Terminal(name)) => name.clone(),
            _ => HERE.to_owned(),
        };
        if !self.terminals.contains_key(&name) {
            let new =
                if name == HERE { Terminal::piped(&self.machine) } else { Terminal::screen(&self.machine) };
            self.terminals.insert(name.clone(), new);
        }
        let steps = steps(block);
        for (n, step) in steps.iter().enumerate() {
            // A command may fail if the page shows with which exit code.
            let told = steps.get(n + 1).and_then(|next| next.command.as_deref()) == Some("echo $?");
            if name != HERE && (n + 1 == steps.len() || step.interrupted) {
                self.watch(&name, step);
            } else {
                self.run(&name, step, told);
            }
        }
    }

    /// Runs a command to its end.
    fn run(&mut self, name: &str, step: &Step, may_fail: bool) {
        let command = step.command.as_deref().unwrap_or_else(|| panic!("{}: no command", self.place(step)));
        let terminal = self.terminals.get_mut(name).expect("it was opened");
        let ended = terminal.run(&self.names.fill(command));
        let good = ended.code == 0 || may_fail;
        assert!(good, "{}: `{command}` failed with {}:\n{}", self.place(step), ended.code, ended.printed);
        let printed: Vec<_> = ended.printed.trim_end().lines().collect();
        let printed = if ended.printed.trim().is_empty() { vec![] } else { printed };
        let same = self.names.match_lines(trim(&step.output), &printed, false)
            || self.names.match_json(&step.output, &ended.printed);
        if !same && std::env::var_os("SEMEL_BLESS").is_some() {
            let lines = printed.iter().map(|line| self.names.unfill(line.trim_end())).collect();
            self.blessed.push(Edit {
                from: step.line + command.matches('\n').count(),
                count: step.output.len(),
                lines,
            });
            return;
        }
        assert!(same, "{}", self.differs(step, &ended.printed));
    }

    /// Begins what goes on running, or looks at what it has printed since.
    fn watch(&mut self, name: &str, step: &Step) {
        let mut expected = trim(&step.output).to_vec();
        let terminal = self.terminals.get_mut(name).expect("it was opened");
        match &step.command {
            Some(command) => terminal.begin(&self.names.fill(command)),
            // Somewhere in what it has printed since it began.
            None => expected.insert(0, "...".to_owned()),
        }
        let names = &mut self.names;
        let seen = terminal.wait(|text| {
            // A line that is not whole yet might be one thing or another.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            names.match_lines(&expected, &whole.lines().collect::<Vec<_>>(), true)
        });
        if step.interrupted {
            terminal.interrupt(&self.machine);
        }
        if let Err(printed) = seen {
            panic!("{}", self.differs(step, &printed));
        }
    }

    fn place(&self, step: &Step) -> String {
        format!("{}:{}", self.page.name, step.line)
    }

    fn differs(&self, step: &Step, printed: &str) -> String {
        let mut told = String::new();
        let command = step.command.as_deref().unwrap_or("(goes on)");
        writeln!(told, "{}: what is printed is not what the page says", self.place(step)).expect("a string");
        writeln!(told, "$ {command}\n--- the page\n{}\n--- printed", step.output.join("\n"))
            .expect("a string");
        told + printed
    }
}

/// Without the empty lines that only make a page easier to read.
fn trim(lines: &[String]) -> &[String] {
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    &lines[..end]
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// What is said about a page, if anything.
    fn complaint(machine: Machine, blocks: &[&str]) -> Option<String> {
        let text = blocks.iter().map(|block| format!("{block}```\n")).collect();
        let page = Page { name: "page.md".into(), text };
        let told = catch_unwind(AssertUnwindSafe(|| read(&page, machine))).err()?;
        told.downcast::<String>().ok().map(|told| *told)
    }

    #[test]
    fn a_page_that_is_wrong_is_noticed() {
        let wrong: [(&[&str], &str); 4] = [
            (&["```console\n$ echo one\ntwo\n"], "is not what the page says"),
            (&["```console\n$ echo one\n"], "is not what the page says"),
            (&["```console\n$ false\n"], "failed with 1"),
            (&["```console\n$ false\n$ echo $?\n2\n"], "is not what the page says"),
        ];
        for (blocks, expected) in wrong {
            let Ok(machine) = Machine::start() else {
                return println!("SKIPPED: wrong pages: no namespaces here");
            };
            let told = complaint(machine, blocks).unwrap_or_else(|| panic!("{blocks:?} passed"));
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn terminals_go_on_beside_each_other_and_can_be_interrupted() {
        let Ok(machine) = Machine::start() else { return println!("SKIPPED: terminals: no namespaces here") };
        let blocks = [
            "<!-- terminal: other -->\n```console\n$ touch news; echo begun; tail -f news\nbegun\n",
            "```console\n$ echo job_1 > news\n$ false\n$ echo $?\n1\n",
            "<!-- terminal: other -->\n```console\njob_1\n^C\n",
        ];
        assert_eq!(complaint(machine, &blocks), None);
    }
}
