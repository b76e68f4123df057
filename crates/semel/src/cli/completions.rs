//! `semel completions`: what a shell needs to complete commands and flags.

use clap::{Args, ValueEnum};
use clap_complete::{generate, shells};

use super::{EXIT_CODES, Outcome, groups, print};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  semel completions bash > ~/.local/share/bash-completion/completions/semel
  semel completions zsh  > ~/.zfunc/_semel                 with ~/.zfunc in fpath
  semel completions fish > ~/.config/fish/completions/semel.fish";

/// Print what a shell needs to complete commands and flags
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl CompletionsArgs {
    /// Prints the script.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let (mut command, mut script) = (groups::public(), Vec::new());
        match self.shell {
            Shell::Bash => generate(shells::Bash, &mut command, "semel", &mut script),
            Shell::Zsh => generate(shells::Zsh, &mut command, "semel", &mut script),
            Shell::Fish => generate(shells::Fish, &mut command, "semel", &mut script),
        }
        print(&String::from_utf8_lossy(&script))?;
        Ok(Outcome::Good)
    }
}
