//! Dead rows: listed, tried again, discarded.

use clap::Args;
use semel_outbox::relay::{Dead, Outbox};
use serde_json::{Value, json};

use super::super::{Outcome, print, print_json};
use super::Database;
use crate::failure::Failure;
use crate::opening;
use crate::text::{count, printable};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    database: Database,
    /// How many at most
    #[arg(long, value_name = "ROWS", default_value = "100")]
    limit: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Which rows.
#[derive(Debug, Args)]
pub(super) struct SomeArgs {
    #[command(flatten)]
    database: Database,
    /// The numbers of the rows
    #[arg(value_name = "ROW", required_unless_present = "all")]
    rows: Vec<i64>,
    /// All rows that were refused
    #[arg(long, conflicts_with = "rows")]
    all: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl ListArgs {
    /// Lists; finding some is a problem found.
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let (depth, dead) = opening::database_runtime()?.block_on(async {
            let outbox = Outbox::open(&self.database.url).await?;
            Ok::<_, Failure>((outbox.depth().await?, outbox.dead(self.limit).await?))
        })?;
        if self.json {
            let rows: Vec<_> = dead.iter().map(object).collect();
            print_json(&json!({ "waiting": depth.waiting, "dead": depth.dead, "rows": rows }))?;
        } else {
            let [waiting, all] = [depth.waiting, depth.dead].map(count);
            let lines: String = dead.iter().map(line).collect();
            print(&format!("{waiting} rows wait, {all} are dead\n{lines}"))?;
        }
        Ok(Outcome::of(depth.dead == 0))
    }
}

fn object(row: &Dead) -> Value {
    json!({
        "row": row.id,
        "queue": row.queue,
        "key": row.key,
        "group": row.group,
        "at": row.at,
        "code": row.code,
        "reason": row.reason,
        "behind": row.behind,
    })
}

fn line(row: &Dead) -> String {
    let behind = if row.behind == 0 {
        String::new()
    } else {
        format!("; {} rows of its group wait", count(row.behind))
    };
    let [queue, key, reason] = [&row.queue, &row.key, &row.reason].map(|text| printable(text));
    format!("  {}  {}  {queue}  {key}  {}: {reason}{behind}\n", row.id, row.at, row.code)
}

impl SomeArgs {
    /// Has them tried again.
    pub(super) fn retry(self) -> Result<Outcome, Failure> {
        let changed = self.change(async |outbox, rows| outbox.retry(rows).await)?;
        self.told("retried", &format!("{} rows will be tried again", count(changed)), changed)
    }

    /// Deletes them.
    pub(super) fn discard(self) -> Result<Outcome, Failure> {
        let changed = self.change(async |outbox, rows| outbox.discard(rows).await)?;
        self.told(
            "discarded",
            &format!("{} rows were deleted and will not be published", count(changed)),
            changed,
        )
    }

    fn change(
        &self,
        change: impl AsyncFnOnce(&Outbox, Option<&[i64]>) -> Result<u64, semel_outbox::relay::Error>,
    ) -> Result<u64, Failure> {
        let rows = (!self.all).then_some(self.rows.as_slice());
        opening::database_runtime()?.block_on(async {
            let outbox = Outbox::open(&self.database.url).await?;
            Ok(change(&outbox, rows).await?)
        })
    }

    /// A row that is not there, or not dead, is a problem found.
    fn told(&self, name: &str, words: &str, changed: u64) -> Result<Outcome, Failure> {
        if self.json {
            print_json(&json!({ name: changed }))?;
        } else {
            print(&format!("{words}\n"))?;
        }
        let asked = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
        Ok(Outcome::of(self.all || changed == asked))
    }
}
