//! SQL by way of `psql`, at some 20 ms a call. Tests that need more speed have a driver.

use std::process::{Command, Output, Stdio};

use crate::{Error, home::Home, programs::program, url};

/// Runs commands through a cluster's socket as its superuser; gives the rows back, unaligned, a line each, columns
/// separated by `|`. Each command is
/// sent by itself: CREATE DATABASE does not bear company.
pub(crate) fn run(home: &Home, port: u16, database: &str, commands: &[&str]) -> Result<String, Error> {
    let mut command = home.account.command(&program("psql")?);
    command.arg("--host").arg(home.path()).args(["--port", &port.to_string(), "--username", url::USER]);
    answer(command.args(["--dbname", database]), commands)
}

/// Runs commands at any URL, over one connection; rows come back a line each, columns separated by `|`. Each command is
/// sent by itself, so a transaction may span them.
pub fn sql_at(url: &str, commands: &[&str]) -> Result<String, Error> {
    answer(Command::new(program("psql")?).args(["--dbname", url]), commands)
}

fn answer(command: &mut Command, commands: &[&str]) -> Result<String, Error> {
    command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--no-password"]);
    command.args(["--set", "ON_ERROR_STOP=1", "--set", "VERBOSITY=verbose"]);
    command.args(commands.iter().flat_map(|one| ["--command", one]));
    let output = command.stdin(Stdio::null()).output().map_err(Error::io("run psql"))?;
    succeeded("psql", &output)
}

/// What a program printed if it succeeded, and what it complained about if not.
pub(crate) fn succeeded(program: &str, output: &Output) -> Result<String, Error> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(Error::Failed { program: program.to_owned(), output: complaint })
}
