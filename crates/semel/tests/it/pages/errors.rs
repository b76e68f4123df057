//! The index of the error codes, made from their pages.

use std::fmt::Write;

use super::generated;
use super::page::Page;

const INDEX: &str = "docs/errors/README.md";

const HEAD: &str = "\
# Error codes

Every error of the API is a problem (RFC 9457, `application/problem+json`) with one of these as its `code`. Codes are stable: branch
on them, not on the words. `retryable` in the problem says whether the same request may work later without anybody
mending anything. The server shows each of these pages at `/errors/{code}`.

| code | status | the same request later | what it means |
|---|---|---|---|
";

/// The row of a page like `not_leased.md`: its title and status are on its first lines.
fn row(page: &Page) -> String {
    let parts = parts(&page.text);
    let (code, title, status, later) = parts
        .unwrap_or_else(|| panic!("{}: begins with \"# `code`: title\", then \"Status NNN. …\"", page.name));
    assert_eq!(page.name, format!("docs/errors/{code}.md"), "the page of a code has its name");
    let later = if later.contains("may work later") { "may work" } else { "gets the same answer" };
    format!("| [`{code}`]({code}.md) | {status} | {later} | {title} |\n")
}

/// Code, title, status and whether a repetition helps, from the first lines of a page.
fn parts(text: &str) -> Option<(&str, &str, &str, &str)> {
    let mut lines = text.lines();
    let (code, title) = lines.next()?.strip_prefix("# `")?.split_once("`: ")?;
    let (status, later) = lines.nth(1)?.strip_prefix("Status ")?.split_once(". ")?;
    Some((code, title, status, later))
}

#[test]
fn the_index_has_every_code() {
    let pages =
        Page::all().into_iter().filter(|page| page.name.starts_with("docs/errors/") && page.name != INDEX);
    let mut rows: Vec<_> = pages.map(|page| row(&page)).collect();
    rows.sort();
    assert!(rows.len() > 30, "{rows:?}");
    let mut index = HEAD.to_owned();
    rows.iter().try_for_each(|row| index.write_str(row)).expect("a string");
    generated::compare(INDEX, &index);
}
