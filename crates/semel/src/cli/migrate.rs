//! `semel migrate`: the schema of a database.

use std::fmt::Write;

use clap::Args;
use semel_store_postgres::{Migration, migrate, pending};

use super::{EXIT_CODES, Outcome, print};
use crate::failure::Failure;
use crate::opening;

const EXAMPLES: &str = "\
Servers do this by themselves when they start, unless store.migrate is false. Nodes of the version
before go on working meanwhile and afterwards, so there is no need to stop them. Each migration is
one transaction: one that was interrupted has not happened, and is begun again.

Examples:
  semel migrate --store postgres://semel@db/semel --dry-run    print the SQL, change nothing
  semel migrate --store postgres://semel@db/semel              apply it";

/// Bring the schema of a database up to date, or print what that would take
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct MigrateArgs {
    /// The address of the database
    #[arg(long, value_name = "URL", env = "SEMEL_STORE", hide_env_values = true)]
    store: String,
    /// Print the SQL and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl MigrateArgs {
    /// Migrates, or prints what is to be done.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let name = opening::database_name(&self.store)?;
        let runtime = opening::database_runtime()?;
        let text = if self.dry_run {
            let pending = runtime.block_on(pending(&self.store)).map_err(Failure::database(&name))?;
            script(&pending)
        } else {
            let done = runtime.block_on(migrate(&self.store)).map_err(Failure::database(&name))?;
            report(&name, &done)
        };
        print(&text)?;
        Ok(Outcome::Good)
    }
}

/// The SQL of migrations, each in the transaction it is applied in.
fn script(pending: &[Migration]) -> String {
    if pending.is_empty() {
        return "-- the schema is up to date\n".into();
    }
    pending.iter().map(Migration::script).collect::<Vec<_>>().join("\n")
}

fn report(name: &str, done: &[Migration]) -> String {
    let mut text = String::new();
    for migration in done {
        writeln!(text, "migration {} ({}) was applied", migration.version, migration.name)
            .expect("a String takes everything");
    }
    text + &format!("{name}: the schema is up to date\n")
}
