//! `semel man`: the help of every command as manual pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{EXIT_CODES, Outcome, groups, print};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  semel man | man -l -                               the page of semel itself
  semel man --out ~/.local/share/man/man1            the pages of all commands: man semel-serve";

/// Print the manual page, or write those of all commands
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct ManArgs {
    /// Write the pages of all commands here; those that are there are replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ManArgs {
    /// Prints one page, or writes them all.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let mut command = groups::public().disable_help_subcommand(true);
        command.build();
        match &self.out {
            None => {
                let page = page(&command).map_err(Failure::io("make the page"))?;
                print(&String::from_utf8_lossy(&page))?;
            }
            Some(dir) => {
                fs::create_dir_all(dir).map_err(Failure::io(format!("make {}", dir.display())))?;
                let count = write_all(&command, dir)?;
                print(&format!("{count} pages in {}\n", dir.display()))?;
            }
        }
        Ok(Outcome::Good)
    }
}

/// Writes the pages of a command and of all below it; says how many.
fn write_all(command: &Command, dir: &Path) -> Result<usize, Failure> {
    let name = Man::new(command.clone()).get_filename();
    let path = dir.join(name);
    let written = page(command).and_then(|page| fs::write(&path, page));
    written.map_err(Failure::io(format!("write {}", path.display())))?;
    command.get_subcommands().try_fold(1, |count, below| Ok(count + write_all(below, dir)?))
}

/// The page of a command. Its examples and exit codes stand as they do on the help page, line by line.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).manual("Semel");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = command.get_after_help() {
        let mut roff = Roff::new();
        roff.control("SH", ["NOTES"]).control("nf", []);
        for line in notes.to_string().lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []).to_writer(&mut page)?;
    }
    Ok(page)
}
