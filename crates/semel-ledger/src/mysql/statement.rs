//! The statements of `ledger/mysql`.

pub(super) const READ: &str = include_str!("../../../../ledger/mysql/statements/read.sql");
pub(super) const INSERT: &str = include_str!("../../../../ledger/mysql/statements/insert.sql");
pub(super) const REPLACE: &str = include_str!("../../../../ledger/mysql/statements/replace.sql");
pub(super) const RENEW: &str = include_str!("../../../../ledger/mysql/statements/renew.sql");
pub(super) const COMPLETE: &str = include_str!("../../../../ledger/mysql/statements/complete.sql");
pub(super) const FORGET: &str = include_str!("../../../../ledger/mysql/statements/forget.sql");
pub(super) const RECOVER: &str = include_str!("../../../../ledger/mysql/statements/recover.sql");
pub(super) const PRUNE: &str = include_str!("../../../../ledger/mysql/statements/prune.sql");
pub(super) const BEGIN: &str = include_str!("../../../../ledger/mysql/statements/begin.sql");
pub(super) const CURRENT: &str = include_str!("../../../../ledger/mysql/statements/current.sql");
pub(super) const RECORD: &str = include_str!("../../../../ledger/mysql/statements/record.sql");
const MARK: &str = include_str!("../../../../ledger/mysql/statements/mark.sql");
const LOOKUP: &str = include_str!("../../../../ledger/mysql/statements/lookup.sql");

pub(super) const VERSION: &str = "SELECT coalesce(max(version), 0) FROM semel_ledger_migration";

/// Before a statement that runs by itself: it alone is meant.
pub(super) const READ_COMMITTED: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// MARK for so many scopes.
pub(super) fn mark(count: usize) -> String {
    let (head, rest) = MARK.split_once("VALUES\n").expect("mark.sql has values");
    let (row, tail) = rest.split_once("\nON DUPLICATE").expect("mark.sql says what a duplicate is");
    format!("{head}VALUES\n{}\nON DUPLICATE{tail}", vec![row; count].join(",\n"))
}

/// LOOKUP for so many scopes.
pub(super) fn lookup(count: usize) -> String {
    let (head, condition) = LOOKUP.split_once("WHERE\n").expect("lookup.sql has a condition");
    format!("{head}WHERE\n{}", vec![condition.trim_end(); count].join("\n OR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_for_several_have_a_place_for_each() {
        assert_eq!(mark(1), MARK);
        assert_eq!(mark(3).matches('?').count(), 3 * 5);
        assert_eq!(lookup(1), LOOKUP.trim_end());
        assert_eq!(lookup(3).matches('?').count(), 3 * 3);
        assert_eq!(lookup(3).matches("\n OR").count(), 2);
    }
}
