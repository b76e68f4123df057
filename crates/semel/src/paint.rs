//! Colour, where there is somebody to see it.

use std::env;
use std::io::{self, IsTerminal};

/// What a word stands for; the colour follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As the rest.
    Plain,
    /// As it should be.
    Good,
    /// Under way.
    Busy,
    /// Neither good nor bad, and not to be overlooked.
    Odd,
    /// To be looked at.
    Bad,
    /// Less important than the rest.
    Faint,
}

/// Whether there is colour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For stdout: only on a terminal, and not for those who said that they want none.
    pub(crate) fn stdout() -> Self {
        Self::on(&io::stdout())
    }

    /// For stdout or stderr: the same.
    pub(crate) fn on(stream: &impl IsTerminal) -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self(wanted && stream.is_terminal())
    }

    /// For files and tests.
    pub(crate) const NONE: Self = Self(false);

    /// The text in its tone.
    pub(crate) fn text(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Busy => "36",
            Tone::Odd => "35",
            Tone::Bad => "31",
            Tone::Faint => "2",
            Tone::Plain => return text.to_owned(),
        };
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// The tone of a status: of a job, a delivery, a replay or a queue.
pub(crate) fn of_status(status: &str) -> Tone {
    match status {
        "completed" | "success" | "done" | "open" => Tone::Good,
        "processing" | "awaiting_ack" | "running" | "deferred" => Tone::Busy,
        "dead" | "failed" | "nacked" | "expired" => Tone::Bad,
        "cancelled" => Tone::Faint,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_there_only_where_it_is_wanted() {
        assert_eq!(Paint::NONE.text(Tone::Bad, "dead"), "dead");
        assert_eq!(Paint(true).text(of_status("dead"), "dead"), "\u{1b}[31mdead\u{1b}[0m");
        assert_eq!(Paint(true).text(of_status("pending"), "pending"), "pending");
    }
}
