//! Pages that are made from something else, and committed so that they can be read.

use std::fs;

use super::page::root;

/// The committed page is what would be made now. `SEMEL_BLESS=1` writes it anew.
pub(super) fn compare(name: &str, made: &str) {
    let path = root().join(name);
    if std::env::var_os("SEMEL_BLESS").is_some() {
        fs::write(&path, made).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "{name} is out of date: run SEMEL_BLESS=1 cargo nextest run -p semel pages");
}
