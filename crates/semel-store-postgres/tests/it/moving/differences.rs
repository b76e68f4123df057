//! A comparison finds whatever is not the same, and says what.

use std::sync::Arc;

use semel_store::{ManualClock, Store};
use semel_store_embedded::export::Export;
use semel_store_postgres::import;

use super::world::{START, embedded, fill, moved};
use crate::harness::{empty_database, runtime};

/// What is done to the database, and what the comparison says of it.
const SABOTAGE: &[(&str, &str)] = &[
    ("UPDATE semel.job SET payload = '{}' WHERE id = (SELECT min(id) FROM semel.job WHERE payload IS NOT NULL)", "other payload"),
    ("UPDATE semel.job SET priority = priority + 1 WHERE id = (SELECT min(id) FROM semel.live)", "other priority"),
    ("UPDATE semel.job SET metadata = NULL WHERE metadata IS NOT NULL", "other metadata"),
    ("UPDATE semel.live SET due = due + 1 WHERE id = (SELECT min(id) FROM semel.live)", "other progress"),
    ("UPDATE semel.live SET rank = rank + 1 WHERE id = (SELECT min(id) FROM semel.live)", "other place among"),
    ("UPDATE semel.live SET joined = 0 WHERE grp IS NOT NULL", "other place among"),
    ("UPDATE semel.live SET open = true WHERE NOT open", "place in its group's line"),
    ("UPDATE semel.done SET look_at = look_at + 1 WHERE id = (SELECT max(id) FROM semel.done)", "other place among"),
    ("UPDATE semel.done SET state = 5 WHERE id = (SELECT max(id) FROM semel.done WHERE state = 3)", "other state, progress"),
    ("UPDATE semel.done SET progress = '{' WHERE id = (SELECT max(id) FROM semel.done)", "cannot be read"),
    ("DELETE FROM semel.live WHERE id = (SELECT max(id) FROM semel.live)", "neither live nor done"),
    ("DELETE FROM semel.job WHERE id = (SELECT max(id) FROM semel.job)", "is missing"),
    ("INSERT INTO semel.done SELECT 1, queue, state, due, finished_at, attempts, deferrals, progress, look_at
      FROM semel.done LIMIT 1", "finished jobs"),
    ("WITH one AS (INSERT INTO semel.done SELECT 1, queue, state, due, finished_at, attempts, deferrals, progress, look_at
                   FROM semel.done LIMIT 1)
      INSERT INTO semel.job SELECT 1, queue, created_at, run_at, priority, key, grp, gated, fingerprint, payload, metadata, overrides
      FROM semel.job LIMIT 1", "should not be"),
    ("UPDATE semel.trace SET duplicates = duplicates + 1", "other suppressed publishes"),
    ("DELETE FROM semel.trace", "traces"),
    ("DELETE FROM semel.key WHERE key = 'completed'", "not listed under its key"),
    ("UPDATE semel.key SET ids = ids[2:] WHERE key = 'again'", "not listed under its key"),
    ("UPDATE semel.key SET ids = ARRAY[ids[3], ids[2], ids[1]] WHERE cardinality(ids) = 3", "newest job is not the last"),
    ("INSERT INTO semel.key VALUES (1, 'nobody', ARRAY[7])", "jobs under keys"),
    ("UPDATE semel.tally SET unfinished = unfinished + 1 WHERE queue = 1", "counts of queue orders"),
    ("UPDATE semel.queue SET created_at = 1 WHERE id = 1", "queue orders is another"),
    ("UPDATE semel.queue SET secrets = '[]' WHERE id = 1", "queue orders is another"),
    ("UPDATE semel.queue SET paused = NOT paused WHERE id = 1", "queue orders is another"),
    ("UPDATE semel.record SET body = replace(body, 'Berlin', 'Paris')", "schedule nightly is another"),
    ("DELETE FROM semel.record WHERE kind = 'api_key'", "API key key-1 is missing"),
    ("SELECT setval('semel.token', 1, false)", "next token"),
    ("SELECT setval('semel.sql_place', 1, false)", "next id"),
    ("UPDATE semel.queue SET deleted = true WHERE id = 1", "queue orders is another"),
    ("SELECT setval('semel.queue_id_seq', 1, false)", "next queue"),
];

#[test]
fn every_kind_of_difference_is_found_and_named() {
    let (dir, database, runtime) = (tempfile::tempdir().unwrap(), empty_database(), runtime());
    let clock = Arc::new(ManualClock::at(START));
    runtime.block_on(async {
        let store = embedded(dir.path(), &clock);
        fill(&store, &clock).await;
        store.close().await.unwrap();
        moved(dir.path(), database.url()).await;
    });
    for (sabotage, expected) in SABOTAGE {
        // A copy is damaged and thrown away, so that each damage is alone.
        let copy = format!("{}_copy", database.name());
        let shared = crate::harness::cluster();
        shared.sql("postgres", &format!("CREATE DATABASE {copy} TEMPLATE {}", database.name())).unwrap();
        shared.sql(&copy, sabotage).unwrap();
        let url = database.url().replace(database.name(), &copy);
        let source = Box::new(Export::open(dir.path()).unwrap());
        let report = runtime.block_on(import::verify(&url, source, &mut |_| {})).unwrap();
        shared.sql("postgres", &format!("DROP DATABASE {copy} WITH (FORCE)")).unwrap();
        let named = report.differences.named.join("\n");
        assert!(named.contains(expected), "{sabotage}\ngave: {named}");
    }
}
