//! The table of metrics in the documentation.

use std::collections::{BTreeMap, BTreeSet};

use super::promtool;

/// What a family is: its type and its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) kind: String,
    pub(super) labels: BTreeSet<String>,
}

/// The families that the page lists for the server.
pub(super) fn listed() -> BTreeMap<String, Family> {
    let page = promtool::read("metrics.md");
    let (_, server) = page.split_once("## The server").unwrap();
    let (table, _) = server.split_once("\n## ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `semel_"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert!(!cells[4].is_empty(), "a metric has a meaning: {row}");
        let labels =
            cells[3].split(',').map(str::trim).filter(|label| !label.is_empty()).map(ToOwned::to_owned);
        (
            cells[1].trim_matches('`').to_owned(),
            Family { kind: cells[2].to_owned(), labels: labels.collect() },
        )
    })
    .collect()
}

/// The families of an exposition in the classic format.
pub(super) fn exposed(text: &str) -> BTreeMap<String, Family> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut families: BTreeMap<String, Family> = types
        .map(|(name, kind)| (name.to_owned(), Family { kind: kind.to_owned(), labels: BTreeSet::new() }))
        .collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line.split_once('{').unwrap_or((line, ""));
        let name = name.split(' ').next().unwrap();
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let family =
            [Some(name), of_histogram].into_iter().flatten().find(|name| families.contains_key(*name));
        let family =
            families.get_mut(family.unwrap_or_else(|| panic!("a sample of no family: {line}"))).unwrap();
        let names =
            labels.split('}').next().unwrap().split("\",").filter_map(|label| label.split_once("=\""));
        family.labels.extend(names.map(|(name, _)| name.to_owned()).filter(|name| name != "le"));
    }
    families
}
