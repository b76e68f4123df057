//! Links lead somewhere: every relative one to a file that is there, and to a heading that is in it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::page::{Page, root};

/// Pages that are not of the book.
const OTHERS: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "examples/double-charge/README.md",
    "examples/other-queues/README.md",
    "examples/workers/README.md",
    "ledger/PROTOCOL.md",
];

static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").expect("a pattern"));
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^()\s]+)\)").expect("a pattern"));
static NAMED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"<a id="([^"]+)">"#).expect("a pattern"));

/// A link and where it stands.
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// The links and pictures of a page, without those in code.
pub(super) fn links(page: &Page) -> Vec<Link> {
    let of_line = |(line, text): (usize, &str)| -> Vec<Link> {
        let text = CODE.replace_all(text, "``").into_owned();
        LINK.captures_iter(&text).map(|found| Link { line, target: found[1].to_owned() }).collect()
    };
    page.prose().into_iter().flat_map(of_line).collect()
}

/// The names that headings can be linked by, as GitHub and mdBook make them.
pub(super) fn anchors(page: &Page) -> BTreeSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in page.prose() {
        anchors.extend(NAMED.captures_iter(line).map(|found| found[1].to_owned()));
        let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else { continue };
        let slug = slug(heading.trim());
        let before = seen.entry(slug.clone()).or_default();
        anchors.insert(if *before == 0 { slug } else { format!("{slug}-{before}") });
        *before += 1;
    }
    anchors
}

/// Lower case, blanks as dashes, and nothing but letters, digits, dashes and underscores.
fn slug(heading: &str) -> String {
    let text = LINK.replace_all(heading, "").to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The path of a target from the root of the repository.
pub(super) fn resolve(page: &str, target: &str) -> PathBuf {
    let mut path = Path::new(page).parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// What is wrong with a link, if anything.
fn broken(page: &Page, link: &Link) -> Option<String> {
    let (path, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
    if path.contains("://") || path.starts_with("mailto:") {
        return None;
    }
    let mut file = if path.is_empty() { PathBuf::from(&page.name) } else { resolve(&page.name, path) };
    if !root().join(&file).exists() {
        return Some(format!("{} is not there", file.display()));
    }
    if root().join(&file).is_dir() {
        file.push("README.md");
    }
    if anchor.is_empty() {
        return None;
    }
    let there = anchors(&Page::read(file.to_str().expect("a path"))).contains(anchor);
    (!there).then(|| format!("{} has no heading #{anchor}", file.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let pages = Page::all().into_iter().chain(OTHERS.iter().map(|name| Page::read(name)));
    let mut found = Vec::new();
    for page in pages {
        for link in links(&page) {
            let wrong = broken(&page, &link);
            found.extend(wrong.map(|wrong| format!("{}:{}: {}: {wrong}", page.name, link.line, link.target)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Alerts name the page and the section that help.
#[test]
fn every_runbook_is_there() {
    let alerts = Page::read("docs/observability/alerts.yml");
    let pages = alerts.text.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: "));
    let page = Page { name: "alerts.yml".into(), text: String::new() };
    let found: Vec<_> = pages.map(|target| Link { line: 0, target: target.to_owned() }).collect();
    assert!(!found.is_empty());
    for link in found {
        assert_eq!(broken(&page, &link), None, "{}", link.target);
    }
}

#[test]
fn headings_are_linked_as_on_github() {
    let text = "# `semel doctor`: what, and why?\n## Two\n## Two\n<a id=\"old-name\"></a>\n";
    let page = Page { name: "x.md".into(), text: text.into() };
    let expected = ["old-name", "semel-doctor-what-and-why", "two", "two-1"].map(str::to_owned);
    assert_eq!(anchors(&page), expected.into());
    assert_eq!(resolve("docs/operations/a.md", "../ledger/b.md"), Path::new("docs/ledger/b.md"));
    assert!(broken(&page, &Link { line: 1, target: "nowhere.md".into() }).is_some());
    assert!(broken(&page, &Link { line: 1, target: "https://example.com/nowhere".into() }).is_none());
}
