//! Asking before something is done that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;

use crate::failure::Failure;

/// Whether to ask.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Confirm {
    /// Do it without asking; needed where there is no terminal
    #[arg(long)]
    yes: bool,
}

impl Confirm {
    /// Goes on if it was said on the command line, or is said now.
    pub(crate) fn ask(self, what: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !is_there_somebody() {
            let words = format!("{what} cannot be undone: add --yes if that is what you want");
            return Err(Failure::Usage(words));
        }
        if says_yes(&format!("{what} cannot be undone. Do it?"))? {
            return Ok(());
        }
        Err(Failure::Usage("nothing was changed".into()))
    }
}

/// Whether somebody can be asked.
pub(crate) fn is_there_somebody() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks; anything but a clear yes is a no.
pub(crate) fn says_yes(question: &str) -> Result<bool, Failure> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).map_err(Failure::io("ask"))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::io("read the answer"))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
