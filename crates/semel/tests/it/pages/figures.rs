//! The figures on the page about sizing: made from those that the benchmarks wrote down, so that none is older or better.

use std::fmt::Write;

use serde_json::Value;

use super::generated;
use super::page::{Page, root};

const PAGE: &str = "docs/operations/sizing.md";

/// How a figure is written.
enum Unit {
    Count,
    Ratio,
    Cores,
    Milliseconds,
    Seconds,
    Bytes,
    Mebibytes,
}
use Unit::{Bytes, Cores, Count, Mebibytes, Milliseconds, Ratio, Seconds};

/// What it is called on the page, which measure or figure it is, and its unit.
type Row = (&'static str, &'static str, Unit);

/// The tables: the comment they stand below, the file they come from, their rows.
const TABLES: &[(&str, &str, &[Row])] = &[
    (
        "server",
        "http",
        &[
            ("publishes/s, single requests on 64 connections", "single publishes", Count),
            ("publishes/s, batches of 100", "batch publishes", Count),
            ("jobs/s from publish to ack, pull", "completed, pull", Count),
            ("jobs/s from publish to ack, push", "completed, push", Count),
            ("publish to answer at full speed, p50", "ack latency p50", Milliseconds),
            ("publish to answer at full speed, p99", "ack latency p99", Milliseconds),
            ("publish to handler at 200 jobs/s, p50", "handler_p50", Milliseconds),
            ("publish to handler at 200 jobs/s, p99", "handler_p99", Milliseconds),
            ("processor at a steady 200 jobs/s, push", "cpu_at_200", Cores),
            ("disk flushes per publish, 64 publishers", "flushes_per_publish", Ratio),
            ("1,000 queues, one endpoint black-holed: the others' rate, against without", "blackhole", Ratio),
            ("memory at rest", "rss_at_rest", Mebibytes),
            ("memory after 400,000 publishes", "rss_loaded", Mebibytes),
        ],
    ),
    (
        "store",
        "store",
        &[
            (
                "publishes/s with 10 million keys present, against an empty store",
                "publish_full_vs_empty",
                Ratio,
            ),
            ("bytes written per job with a payload of 512 bytes", "bytes_written_per_job", Bytes),
            ("memory with 10 million jobs queued", "memory_resident", Mebibytes),
            ("start after SIGKILL, 10 million jobs queued", "open_after_kill", Seconds),
        ],
    ),
    (
        "postgres",
        "postgres",
        &[
            ("publishes/s, single requests", "single publishes", Count),
            ("publishes/s, batches of 100", "batch publishes", Count),
            ("jobs/s from publish to ack, pull", "completed, pull", Count),
            ("publish to answer at full speed, p99", "ack latency p99", Milliseconds),
            ("three nodes against one, the best of three loads each", "three_vs_one", Ratio),
            ("the same, 64 connections on both sides", "64 connections, three against one", Ratio),
            ("the same, 192 connections on both sides", "192 connections, three against one", Ratio),
            ("the same, 384 connections on both sides", "384 connections, three against one", Ratio),
            ("statements per second of an idle node", "idle_statements", Ratio),
        ],
    ),
];

#[test]
fn the_figures_are_those_that_were_measured() {
    let mut text = Page::read(PAGE).text;
    for (name, file, rows) in TABLES {
        let begin = format!("<!-- figures: {name} -->\n");
        let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{PAGE} has no {begin}"));
        let (_, after) =
            rest.split_once("<!-- end of figures -->").unwrap_or_else(|| panic!("no end of {name}"));
        text = format!("{before}{begin}{}<!-- end of figures -->{after}", table(file, rows));
    }
    generated::compare(PAGE, &text);
}

fn table(file: &str, rows: &[Row]) -> String {
    let path = format!("docs/bench/{file}.json");
    let text = std::fs::read_to_string(root().join(&path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let bench: Value = serde_json::from_str(&text).expect("JSON");
    let mut table = format!("| measured ([{file}.json](../bench/{file}.json)) | |\n|---|---|\n");
    for (title, name, unit) in rows {
        let figure = figure(&bench, name).unwrap_or_else(|| panic!("{path} has no {name:?}"));
        writeln!(table, "| {title} | {} |", show(figure, unit)).expect("a string");
    }
    table
}

/// The median of a measure, or of a figure behind the measures.
fn figure(bench: &Value, name: &str) -> Option<f64> {
    let find = |list: &str, key: &str, value: &str| {
        let all = bench[list].as_array().into_iter().flatten();
        all.filter(|one| one[key] == name).find_map(|one| one[value].as_f64())
    };
    find("measures", "id", "measured").or_else(|| find("figures", "name", "median"))
}

fn show(figure: f64, unit: &Unit) -> String {
    match unit {
        Count => thousands(figure),
        Ratio => format!("{figure:.2}"),
        Cores => format!("{figure:.2} cores"),
        Milliseconds => format!("{figure:.2} ms"),
        Seconds => format!("{figure:.2} s"),
        Bytes => format!("{} bytes", thousands(figure)),
        Mebibytes => format!("{:.0} MiB", figure / f64::from(1 << 20)),
    }
}

fn thousands(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
