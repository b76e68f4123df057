//! How it is told: line by line as it happens, then in a table. In colour on a terminal, and not at all for machines.

use std::io::{self, IsTerminal, Write};

use crate::acts::{Act, ORDERS, Rule};
use crate::failure::Failure;
use crate::report::{Played, Report, Turn};
use crate::word::{Boundary, Word};

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

const HELD: &str =
    "The promise held: wherever the ledger was asked, nothing happened twice and no charge was lost.";
const NOT_HELD: &str = "Not everything came out as it must.";

pub(crate) struct Telling {
    silent: bool,
    colour: bool,
}

/// Prints a line. A reader who left early has seen enough.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::io("print")(error)),
        _ => Ok(()),
    }
}

impl Telling {
    pub(crate) fn new(silent: bool) -> Self {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { silent, colour }
    }

    pub(crate) fn prologue(&self) -> Result<(), Failure> {
        self.say(
            &self.paint(BOLD, "The double charge: five workers, the same four orders, the same kills."),
        )?;
        self.say(
            "A Semel server, a payment provider and a shop with its database, all real, all on this machine.",
        )?;
        self.say("Workers are processes of their own, and kill -9 is kill -9. The queue delivers again, as it must.")
    }

    pub(crate) fn begin(&self, act: Act) -> Result<(), Failure> {
        let title = format!("Act {}. {}", act.number(), act.title());
        self.say(&format!("\n{}", self.paint(BOLD, &title)))?;
        act.story().iter().try_for_each(|text| self.say(&self.paint(DIM, &format!("   {text}"))))
    }

    pub(crate) fn killed(&self, act: Act, word: &Word, pid: u32) -> Result<(), Failure> {
        let text = format!("kill -9 {pid}, {}", act.boundary(word.at));
        self.event(word, pid, &self.paint(YELLOW, &text))
    }

    pub(crate) fn settled(&self, word: &Word, pid: u32, says: &str) -> Result<(), Failure> {
        self.event(word, pid, says)
    }

    fn event(&self, word: &Word, pid: u32, text: &str) -> Result<(), Failure> {
        self.say(&format!("   order {}   delivery {}   worker {pid:<8} {text}", word.order, word.delivery))
    }

    /// Says what came of an act.
    pub(crate) fn end(&self, played: &Played) -> Result<(), Failure> {
        let (mark, colour) = match (played.as_it_must, played.rule.is_promise()) {
            (true, true) => ("✓", GREEN),
            (true, false) => ("✗", RED),
            (false, _) => ("✗ NOT AS IT MUST BE:", RED),
        };
        self.say(&self.paint(colour, &format!("   {mark} {}", summary(played))))
    }

    /// Everything at a glance, and what it means.
    pub(crate) fn table(&self, report: &Report) -> Result<(), Failure> {
        self.say(&format!("\n{}", self.paint(BOLD, "How often each order was charged (or mailed)")))?;
        let orders = ORDERS.map(|(order, _)| order.to_string());
        self.row("order", "", orders.each_ref().map(String::as_str))?;
        let killed = ORDERS.map(|(_, at)| at.map_or("never", moment));
        self.row("its worker was killed", "expected", killed)?;
        self.say(&self.paint(DIM, &format!("   {}", "─".repeat(96))))?;
        report.acts.iter().try_for_each(|act| self.act(act))?;
        let (text, colour) = if report.held { (HELD, GREEN) } else { (NOT_HELD, RED) };
        self.say(&format!("\n{}", self.paint(colour, text)))
    }

    fn row(&self, name: &str, expected: &str, cells: [&str; 4]) -> Result<(), Failure> {
        let [a, b, c, d] = cells;
        let text = format!("   {name:<30}{expected:<10}{a:<9}{b:<11}{c:<10}{d:<10}");
        self.say(&self.paint(DIM, text.trim_end()))
    }

    fn act(&self, played: &Played) -> Result<(), Failure> {
        let name = format!("{} {}", played.number, played.act.name());
        let mut text = format!("   {name:<30}{:<10}", played.expected);
        for (turn, width) in played.orders.iter().zip([9, 11, 10, 10]) {
            text += &self.cell(played.rule, turn, width);
        }
        let colour = if played.as_it_must && played.rule.is_promise() { GREEN } else { RED };
        self.say(&(text + &self.paint(colour, played.verdict())))
    }

    /// A count, with a cross if it is not what is wanted.
    fn cell(&self, rule: Rule, turn: &Turn, width: usize) -> String {
        let allowed = rule.allows(turn.found);
        let text = if allowed { turn.found.to_string() } else { format!("{} ✗", turn.found) };
        let padded = format!("{text:<width$}");
        if allowed { padded } else { self.paint(RED, &padded) }
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        if self.silent { Ok(()) } else { line(text) }
    }
}

fn moment(at: Boundary) -> &'static str {
    match at {
        Boundary::BeforeEffect => "before it",
        Boundary::AfterEffect => "after it",
        Boundary::BeforeAck => "before ack",
    }
}

/// What came of an act, in figures.
fn summary(played: &Played) -> String {
    let (twice, never) = (played.count(|turn| turn.found > 1), played.count(|turn| turn.found == 0));
    let dead = played.count(|turn| turn.dead);
    let effects: u32 = played.orders.iter().map(|turn| turn.found).sum();
    let counts = format!("{} orders, {effects} {}s", played.orders.len(), played.act.effect());
    match played.act {
        Act::Naive => format!("{counts}: {twice} customers paid twice"),
        Act::InsertFirst => format!("{counts}: {never} was acknowledged and never charged"),
        Act::Transactional => format!("{counts}: {twice} twice, {never} lost"),
        Act::Intent => format!("{counts}, by {} requests: {twice} twice, {never} lost", played.requests),
        Act::AtMostOnce => {
            format!("{counts}: {twice} twice, {never} never sent; {dead} dead letters ask a person to look")
        }
    }
}
