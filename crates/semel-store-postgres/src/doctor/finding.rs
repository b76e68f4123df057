//! What follows from what was seen. A pure function, so that each finding has a test.

use serde::Serialize;

use super::{Condition, Examination, Index, Table};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Grade {
    /// Good to know.
    Note,
    /// It will get worse.
    Warning,
    /// What was answered may be lost, or the server is about to stop.
    Danger,
}

/// Something to know, or to do something about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// What it is.
    pub what: String,
    /// What it means.
    pub means: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Dead rows that are worth a word: vacuum begins with the hot table at 5,000, so this many mean that it does not keep up.
const DEAD_MANY: i64 = 50_000;
/// A hot table of this size has held a large backlog.
const HOT_LARGE: i64 = 256 << 20;
/// What an unfinished job takes in the hot table, generously.
const HOT_ROW: i64 = 1000;
/// Seconds after which a transaction keeps vacuum from its work.
const TRANSACTION_LONG: i64 = 600;
/// The server refuses writes at two thousand million; its own alarm begins at half that.
const FROZEN_OLD: i64 = 1_000_000_000;
/// Log that is kept for a replica which may never come back.
const LOG_LARGE: i64 = 4 << 30;
/// Seconds by which pruning may be late: it looks every few.
const PRUNE_LATE: i64 = 3600;
/// Changes of counts that every look at the counts has to add up.
const TALLIES_MANY: i64 = 50_000;

/// Everything there is to say, the worst first.
pub(super) fn findings(seen: &Examination) -> Vec<Finding> {
    let mut all: Vec<Finding> = settings(seen)
        .into_iter()
        .chain(seen.tables.iter().filter_map(vacuum))
        .chain(seen.tables.iter().filter_map(bloat))
        .chain(seen.indexes.iter().filter_map(broken))
        .chain(condition(&seen.condition))
        .collect();
    all.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    all
}

fn found(grade: Grade, what: impl Into<String>, means: &'static str, remedy: &'static str) -> Finding {
    Finding { grade, what: what.into(), means, remedy }
}

fn settings(seen: &Examination) -> Vec<Finding> {
    let is = |name: &str, value: &str| seen.settings.get(name).is_some_and(|found| found == value);
    let mut all = Vec::new();
    if is("fsync", "off") {
        all.push(found(
            Grade::Danger,
            "fsync is off",
            "A power cut loses jobs that were answered, or the whole database.",
            "Set fsync = on and restart the server.",
        ));
    }
    if is("full_page_writes", "off") {
        all.push(found(
            Grade::Danger,
            "full_page_writes is off",
            "A power cut in the middle of a page can damage it for good, unless the file system writes pages whole.",
            "Set full_page_writes = on, unless you know that it does.",
        ));
    }
    if is("synchronous_commit", "off") {
        all.push(found(
            Grade::Danger,
            "synchronous_commit is off",
            "Nodes refuse to start: the server would call durable what is not.",
            "ALTER ROLE ... SET synchronous_commit = on",
        ));
    }
    if is("autovacuum", "off") {
        all.push(found(
            Grade::Danger,
            "autovacuum is off",
            "Every job leaves dead rows. Nothing takes them away, and leases become slower with each.",
            "Set autovacuum = on.",
        ));
    }
    let standby = seen.settings.get("synchronous_standby_names").is_some_and(|names| !names.is_empty());
    if standby && is("synchronous_commit", "local") {
        all.push(found(
            Grade::Warning,
            "commits do not wait for the synchronous standby (synchronous_commit is local)",
            "If the standby takes over, jobs that were answered may be missing.",
            "ALTER ROLE ... SET synchronous_commit = on",
        ));
    }
    if !standby {
        all.push(found(
            Grade::Note,
            "there is no synchronous standby",
            "What was answered survives a crash of the server, not the loss of its disk.",
            "Name one in synchronous_standby_names if it has to.",
        ));
    }
    all
}

/// Dead rows that vacuum leaves lying.
fn vacuum(table: &Table) -> Option<Finding> {
    (table.dead >= DEAD_MANY && table.dead > table.rows / 2).then(|| {
        found(
            Grade::Warning,
            format!("semel.{} has {} dead rows beside {}", table.name, table.dead, table.rows),
            "Vacuum does not keep up, or something keeps it from taking rows away. Scans pass by every one of them.",
            "Look for long transactions below; then VACUUM (VERBOSE) the table, and give autovacuum more workers.",
        )
    })
}

/// A hot table that is far larger than what is in it.
fn bloat(table: &Table) -> Option<Finding> {
    let large =
        table.name == "live" && table.bytes >= HOT_LARGE && table.bytes > table.rows.saturating_mul(HOT_ROW);
    large.then(|| {
        found(
            Grade::Warning,
            format!("semel.live takes {} MiB for {} unfinished jobs", table.bytes >> 20, table.rows),
            "A backlog has come and gone. Its space is used again, but is read through by vacuum each time.",
            "In a quiet hour: VACUUM FULL semel.live. It stops everything for as long as it copies what is left.",
        )
    })
}

fn broken(index: &Index) -> Option<Finding> {
    (!index.valid).then(|| {
        found(
            Grade::Danger,
            format!("the index semel.{} of semel.{} is not valid", index.name, index.table),
            "It is kept up to date and not used; statements that need it read the whole table.",
            "REINDEX INDEX CONCURRENTLY it.",
        )
    })
}

fn condition(seen: &Condition) -> Vec<Finding> {
    let Condition { connections, connections_max: max, .. } = seen;
    let oldest = seen.oldest_transaction.max(seen.oldest_prepared);
    let all = [
        (seen.frozen_age >= FROZEN_OLD).then(|| {
            found(
                Grade::Danger,
                format!("{} transactions have passed since the oldest that is not frozen", seen.frozen_age),
                "At two thousand million the server takes no more writes.",
                "VACUUM (FREEZE) the database, and find what kept autovacuum from it.",
            )
        }),
        (oldest >= TRANSACTION_LONG).then(|| {
            found(
                Grade::Warning,
                format!("a transaction has been open for {oldest} s"),
                "As long as it is, no row that died since is taken away, in any table.",
                "SELECT pid, usename, state, query FROM pg_stat_activity ORDER BY xact_start; for prepared ones, \
                 pg_prepared_xacts. End it, and set idle_in_transaction_session_timeout for its role.",
            )
        }),
        (connections * 5 >= max * 4).then(|| {
            found(
                Grade::Warning,
                format!("{connections} of {max} connections are taken"),
                "Nodes that get no more answer 503.",
                "Lower store.connections, put a pooler between, or raise max_connections.",
            )
        }),
        (seen.log_kept >= LOG_LARGE).then(|| {
            found(
                Grade::Warning,
                format!("{} MiB of log are kept for a replica that does not fetch them", seen.log_kept >> 20),
                "It grows until the disk is full, and then nothing is written any more.",
                "SELECT slot_name FROM pg_replication_slots WHERE NOT active; drop it with pg_drop_replication_slot, or set \
                 max_slot_wal_keep_size.",
            )
        }),
        (seen.prune_behind >= PRUNE_LATE).then(|| {
            found(
                Grade::Warning,
                format!("finished jobs have been waiting for {} s to be pruned", seen.prune_behind),
                "No node runs, or pruning does not keep up; the tables grow.",
                "semel nodes --store ... shows who has the role `prune`; its log says what holds it up.",
            )
        }),
        (seen.days_ahead == 0).then(|| {
            found(
                Grade::Warning,
                "there is no partition for tomorrow",
                "Jobs go to the default partition then, and are deleted row by row one day.",
                "Start a node: it makes them for a week ahead. If one runs, its log says why it could not.",
            )
        }),
        (seen.outside_days > 0).then(|| {
            found(
                Grade::Note,
                format!("{} jobs or more are in the default partition", seen.outside_days),
                "They were moved here from another store, or published on a day without a partition.",
                "Nothing: they go with their retention.",
            )
        }),
        (seen.tallies >= TALLIES_MANY).then(|| {
            found(
                Grade::Warning,
                format!("{} changes of counts wait to be added up", seen.tallies),
                "Every look at the counts adds them up; pruning should have.",
                "semel nodes --store ... shows who has the role `prune`; its log says what holds it up.",
            )
        }),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Examination {
        let table = |name: &str| Table {
            name: name.into(),
            partitions: 0,
            rows: 1000,
            dead: 400,
            bytes: 1 << 20,
            index_bytes: 1 << 20,
            vacuumed_at: None,
        };
        let index =
            Index { name: "live_ready".into(), table: "live".into(), bytes: 1 << 20, scans: 7, valid: true };
        let settings = [("fsync", "on"), ("synchronous_commit", "on"), ("synchronous_standby_names", "one")];
        Examination {
            tables: vec![table("live"), table("job")],
            indexes: vec![index],
            settings: settings.map(|(name, value)| (name.into(), value.into())).into(),
            condition: Condition { connections_max: 100, days_ahead: 7, ..Condition::default() },
            findings: Vec::new(),
        }
    }

    /// What is found when one thing is changed.
    fn with(change: impl FnOnce(&mut Examination)) -> Vec<(Grade, String)> {
        let mut seen = healthy();
        change(&mut seen);
        findings(&seen).into_iter().map(|finding| (finding.grade, finding.what)).collect()
    }

    fn set(name: &str, value: &str) -> Vec<(Grade, String)> {
        with(|seen| drop(seen.settings.insert(name.into(), value.into())))
    }

    fn assert_found(found: &[(Grade, String)], grade: Grade, what: &str) {
        assert!(matches!(found, [(of, text)] if *of == grade && text.contains(what)), "{what}: {found:?}");
    }

    #[test]
    fn nothing_is_said_of_what_is_well() {
        assert_eq!(with(|_| {}), []);
    }

    #[test]
    fn settings_that_lose_jobs_are_dangers() {
        for (name, value) in [("fsync", "off"), ("full_page_writes", "off"), ("autovacuum", "off")] {
            assert_found(&set(name, value), Grade::Danger, name);
        }
        assert_found(&set("synchronous_commit", "off"), Grade::Danger, "synchronous_commit");
        assert_found(&set("synchronous_commit", "local"), Grade::Warning, "do not wait");
        assert_found(&set("synchronous_standby_names", ""), Grade::Note, "no synchronous standby");
    }

    #[test]
    fn tables_and_indexes_are_judged_by_what_they_hold() {
        assert_found(&with(|seen| seen.tables[1].dead = 60_000), Grade::Warning, "semel.job has 60000 dead");
        assert_eq!(with(|seen| (seen.tables[1].dead, seen.tables[1].rows) = (60_000, 1_000_000)), []);
        assert_found(&with(|seen| seen.tables[0].bytes = 300 << 20), Grade::Warning, "300 MiB for 1000");
        assert_eq!(with(|seen| seen.tables[1].bytes = 300 << 20), [], "only the hot table is to be small");
        assert_found(&with(|seen| seen.indexes[0].valid = false), Grade::Danger, "semel.live_ready");
    }

    #[test]
    fn each_condition_has_its_finding_and_the_worst_comes_first() {
        assert_found(&with(|seen| seen.condition.connections = 80), Grade::Warning, "80 of 100");
        assert_found(&with(|seen| seen.condition.oldest_transaction = 700), Grade::Warning, "700 s");
        assert_found(&with(|seen| seen.condition.oldest_prepared = 900), Grade::Warning, "900 s");
        assert_found(&with(|seen| seen.condition.log_kept = 5 << 30), Grade::Warning, "5120 MiB");
        assert_found(&with(|seen| seen.condition.prune_behind = 4000), Grade::Warning, "4000 s");
        assert_found(&with(|seen| seen.condition.days_ahead = 0), Grade::Warning, "tomorrow");
        assert_found(&with(|seen| seen.condition.outside_days = 3), Grade::Note, "3 jobs");
        assert_found(&with(|seen| seen.condition.tallies = 60_000), Grade::Warning, "60000 changes");
        let both = with(|seen| {
            seen.condition.outside_days = 1;
            seen.condition.frozen_age = 2_000_000_000;
        });
        assert_eq!(both.iter().map(|(grade, _)| *grade).collect::<Vec<_>>(), [Grade::Danger, Grade::Note]);
    }
}
