//! The table.

use clap::Args;
use semel_outbox::relay::Outbox;
use semel_outbox::schema;

use super::super::{Outcome, print};
use super::Database;
use crate::failure::Failure;
use crate::opening;

pub(super) const EXAMPLES: &str = "\
Examples:
  semel relay schema --database postgres://shop@db/shop             print it, for your migrations
  semel relay schema --database postgres://shop@db/shop --apply     run it; again changes nothing";

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    #[command(flatten)]
    database: Database,
    /// Run it instead of printing it
    #[arg(long)]
    apply: bool,
}

impl SchemaArgs {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let url = &self.database.url;
        if self.apply {
            opening::database_runtime()?
                .block_on(async { Outbox::open(url).await?.ensure_schema().await })?;
            print("the table semel_outbox is there\n")?;
        } else {
            print(sql(url)?)?;
        }
        Ok(Outcome::Good)
    }
}

fn sql(url: &str) -> Result<&'static str, Failure> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Ok(schema::POSTGRES),
        Some("mysql" | "mariadb") => Ok(schema::MYSQL),
        Some("sqlite") => Ok(schema::SQLITE),
        _ => {
            Err(Failure::Usage("--database begins with postgres://, mysql://, mariadb:// or sqlite:".into()))
        }
    }
}
