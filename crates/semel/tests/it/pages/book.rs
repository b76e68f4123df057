//! The book that mdBook makes of `docs`: its settings, and that no page is left out.

use std::collections::BTreeSet;

use super::links::{links, resolve};
use super::page::{Page, root};

const SUMMARY: &str = "docs/SUMMARY.md";

#[test]
fn every_page_is_in_the_book_once() {
    let summary = Page::read(SUMMARY);
    let mut listed = BTreeSet::new();
    for link in links(&summary) {
        let path = resolve(SUMMARY, &link.target).to_str().expect("a path").to_owned();
        assert!(listed.insert(path.clone()), "{SUMMARY}:{}: {path} is listed twice", link.line);
    }
    let pages = Page::all().into_iter().map(|page| page.name);
    let pages: BTreeSet<_> = pages.filter(|name| name != "README.md" && name != SUMMARY).collect();
    let missing: Vec<_> = pages.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&pages).collect();
    assert!(missing.is_empty() && gone.is_empty(), "{SUMMARY}: not listed {missing:?}, not there {gone:?}");
}

/// mdBook refuses a table or key that it does not know, and so does this.
#[test]
fn the_settings_of_the_book_are_those_mdbook_knows() {
    let text = std::fs::read_to_string(root().join("book.toml")).expect("book.toml");
    let settings: toml::Table = text.parse().expect("TOML");
    let known = [
        ("book", &["title", "description", "authors", "language", "src"][..]),
        ("build", &["build-dir", "create-missing"]),
        ("output", &["html"]),
    ];
    for (table, content) in &settings {
        let known =
            known.iter().find(|(name, _)| name == table).unwrap_or_else(|| panic!("no table [{table}]")).1;
        for key in content.as_table().expect("a table").keys() {
            assert!(known.contains(&key.as_str()), "no setting {table}.{key}");
        }
    }
    assert_eq!(settings["book"]["src"].as_str(), Some("docs"));
    let missing = settings["build"]["create-missing"].as_bool();
    assert_eq!(missing, Some(false), "a page that is missing is an error, not an empty page");
}

/// mdBook makes `README.md` an `index.html` but leaves the links to it as they are, so that something must stand there.
#[test]
fn links_to_a_readme_are_led_on() {
    let text = std::fs::read_to_string(root().join("book.toml")).expect("book.toml");
    let settings: toml::Table = text.parse().expect("TOML");
    let led: BTreeSet<_> =
        settings["output"]["html"]["redirect"].as_table().expect("a table").keys().cloned().collect();
    let readme =
        |name: &str| Some(name.strip_prefix("docs")?.strip_suffix("README.md")?.to_owned() + "README.html");
    let readmes: BTreeSet<_> = Page::all().iter().filter_map(|page| readme(&page.name)).collect();
    assert_eq!(led, readmes);
}
