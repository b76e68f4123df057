//! The database under a store: sizes, what vacuum has left, settings, and what follows.

use semel_store_postgres::doctor::{Examination, Finding, Grade, Index, Table, examine};
use serde_json::json;

use crate::cli::{Outcome, print, print_json};
use crate::failure::Failure;
use crate::opening;
use crate::table::columns;
use crate::text::{bytes, count, printable};

/// Examines the database at `url`.
pub(super) fn run(url: &str, as_json: bool) -> Result<Outcome, Failure> {
    let name = opening::database_name(url)?;
    let seen = opening::database_runtime()?.block_on(examine(url));
    let seen = seen.map_err(Failure::database(&name))?;
    if as_json {
        print_json(&json!({ "database": name, "examination": seen }))?;
    } else {
        print(&render(&name, &seen))?;
    }
    Ok(Outcome::of(seen.findings.iter().all(|finding| finding.grade == Grade::Note)))
}

fn render(name: &str, seen: &Examination) -> String {
    let settings: Vec<_> =
        seen.settings.iter().map(|(name, value)| format!("{name} = {}", shown(value))).collect();
    let findings: Vec<_> = seen.findings.iter().map(finding).collect();
    format!(
        "{name}\n{}\n{}\n  {}\n\n{}",
        columns(["table", "rows", "dead", "size", "indexes", "vacuumed"], seen.tables.iter().map(table)),
        columns(["index", "of", "size", "used"], seen.indexes.iter().map(index)),
        settings.join(", "),
        if findings.is_empty() { "nothing to complain of\n".to_owned() } else { findings.join("\n") }
    )
}

fn table(table: &Table) -> [String; 6] {
    let name = match table.partitions {
        0 => table.name.clone(),
        many => format!("{} ({many} partitions)", table.name),
    };
    let vacuumed = table.vacuumed_at.map_or_else(|| "never".to_owned(), time);
    [name, number(table.rows), number(table.dead), size(table.bytes), size(table.index_bytes), vacuumed]
}

fn index(index: &Index) -> [String; 4] {
    [index.name.clone(), index.table.clone(), size(index.bytes), number(index.scans)]
}

fn finding(finding: &Finding) -> String {
    let grade = match finding.grade {
        Grade::Note => "note",
        Grade::Warning => "warning",
        Grade::Danger => "danger",
    };
    format!("{grade}: {}\n  {}\n  {}\n", finding.what, finding.means, finding.remedy)
}

fn shown(value: &str) -> String {
    if value.is_empty() { "none".to_owned() } else { printable(value) }
}

fn number(n: i64) -> String {
    count(n.max(0).unsigned_abs())
}

fn size(n: i64) -> String {
    bytes(n.max(0).unsigned_abs())
}

fn time(millis: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use semel_store_postgres::doctor::Condition;

    use super::*;

    #[test]
    fn everything_is_below_its_head_and_a_finding_says_what_to_do() {
        let seen = Examination {
            tables: vec![Table {
                name: "job".into(),
                partitions: 9,
                rows: 12_345,
                dead: 0,
                bytes: 8 << 20,
                index_bytes: 1 << 20,
                vacuumed_at: Some(1_794_744_000_000),
            }],
            indexes: vec![Index {
                name: "job_pkey".into(),
                table: "job".into(),
                bytes: 1 << 20,
                scans: 77,
                valid: true,
            }],
            settings: [("fsync".into(), "off".into()), ("wal_level".into(), String::new())].into(),
            condition: Condition::default(),
            findings: vec![Finding {
                grade: Grade::Danger,
                what: "fsync is off".into(),
                means: "Jobs are lost.",
                remedy: "Turn it on.",
            }],
        };
        let expected = "db/semel
  table               rows    dead  size     indexes  vacuumed
  job (9 partitions)  12,345  0     8.0 MiB  1.0 MiB  2026-11-15T12:00:00Z

  index     of   size     used
  job_pkey  job  1.0 MiB  77

  fsync = off, wal_level = none

danger: fsync is off
  Jobs are lost.
  Turn it on.\n";
        assert_eq!(render("db/semel", &seen), expected);
    }
}
