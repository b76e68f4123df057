//! A publish as columns of a row.

use semel_client::Publish;

/// What a publish asks for besides payload, key and group, as JSON; `None` if that is nothing.
#[cfg_attr(
    not(any(
        feature = "rusqlite",
        feature = "sqlx-mysql",
        feature = "sqlx-postgres",
        feature = "tokio-postgres"
    )),
    expect(dead_code, reason = "without a driver nothing is inserted")
)]
pub(crate) fn options(publish: &Publish) -> Option<String> {
    let options = publish.options();
    (!options.is_empty()).then(|| serde_json::Value::Object(options.clone()).to_string())
}
