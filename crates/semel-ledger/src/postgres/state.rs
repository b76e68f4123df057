//! What an SQLSTATE means to the ledger.

use crate::StoreErrorKind;

/// The kind of a server's error.
pub(super) fn kind(state: &str) -> StoreErrorKind {
    match state {
        // undefined_table, undefined_function, undefined_column, invalid_schema_name
        "42P01" | "42883" | "42703" | "3F000" => StoreErrorKind::Schema,
        // too_many_connections, lock_not_available, serialization failures and deadlocks pass
        "53300" | "55P03" | "40001" | "40P01" => StoreErrorKind::Unavailable,
        // the connection's end, whoever brought it about
        _ if state.starts_with("08") || state.starts_with("57") => StoreErrorKind::Unavailable,
        // read_only_sql_transaction, disk_full, insufficient_privilege, and whatever else it does not want
        _ => StoreErrorKind::Refused,
    }
}

/// Whether an error says that another transaction recorded the same entry first. A unique violation in another schema is
/// one of the application's deferred constraints, which speak at `COMMIT`.
pub(super) fn taken(state: &str, schema: Option<&str>) -> bool {
    const UNIQUE_VIOLATION: &str = "23505";
    state == UNIQUE_VIOLATION && schema == Some("semel_ledger")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_is_told_from_what_does_not() {
        assert_eq!(kind("57P01"), StoreErrorKind::Unavailable);
        assert_eq!(kind("25006"), StoreErrorKind::Refused);
        assert_eq!(kind("53100"), StoreErrorKind::Refused);
        assert_eq!(kind("3F000"), StoreErrorKind::Schema);
    }
}
