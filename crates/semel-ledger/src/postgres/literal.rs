//! Values in the text of a statement, for messages of more than one statement: those take no parameters.

use postgres_protocol::escape::escape_literal;

/// A text. Keys, names and JSON contain no NUL, which would end the message.
pub(super) fn text(value: &str) -> String {
    escape_literal(value)
}

/// A number, or none.
pub(super) fn number(value: Option<i64>) -> String {
    value.map_or_else(|| "NULL".into(), |value| value.to_string())
}
