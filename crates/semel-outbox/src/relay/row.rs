//! A row of the outbox, and the publish that it is.

use semel_client::Publish;
use serde_json::{Map, Value};

/// Members of a publish that have columns of their own.
const COLUMNS: [&str; 3] = ["payload", "idempotencyKey", "group"];

/// A row that waits.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) queue: String,
    pub(super) key: String,
    pub(super) group: Option<String>,
    pub(super) payload: String,
    pub(super) options: Option<String>,
}

/// Why a row will not become a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: String,
    pub(super) reason: String,
}

/// The columns of a row, in the order of the fields of [`Row`].
pub(super) type Columns = (i64, String, String, Option<String>, String, Option<String>);

impl Row {
    pub(super) fn of((id, queue, key, group, payload, options): Columns) -> Self {
        Self { id, queue, key, group, payload, options }
    }

    /// Those that have a group, each with it.
    pub(super) fn grouped(rows: &[Self]) -> Vec<(&Self, &String)> {
        rows.iter().filter_map(|row| Some((row, row.group.as_ref()?))).collect()
    }

    /// The publish that it is. Whoever inserted it may have written anything.
    pub(super) fn publish(&self) -> Result<Publish, Refused> {
        let no = |reason: String| Refused { code: "invalid".into(), reason };
        let publish = Publish::of_json(&self.queue, &self.payload)
            .map_err(|error| no(format!("payload: {error}")))?
            .key(&self.key);
        let publish = match &self.group {
            Some(group) => publish.group(group),
            None => publish,
        };
        let options: Map<String, Value> = match &self.options {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| no(format!("options: must be an object of JSON: {error}")))?,
            None => Map::new(),
        };
        if let Some(name) = COLUMNS.iter().find(|name| options.contains_key(**name)) {
            return Err(no(format!("options: {name} has a column of its own")));
        }
        Ok(options.into_iter().fold(publish, |publish, (name, value)| publish.option(name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(payload: &str, options: Option<&str>) -> Row {
        Row {
            id: 1,
            queue: "q".into(),
            key: "k".into(),
            group: Some("g".into()),
            payload: payload.into(),
            options: options.map(Into::into),
        }
    }

    #[test]
    fn a_row_is_the_publish_that_was_inserted() {
        let publish = row("[1.0]", Some(r#"{"priority": 5}"#)).publish().unwrap();
        let body = serde_json::to_string(&publish).unwrap();
        assert_eq!(body, r#"{"payload":[1.0],"idempotencyKey":"k","group":"g","priority":5}"#);
    }

    #[test]
    fn what_is_no_publish_is_refused_with_the_column_at_fault() {
        for (payload, options, expected) in [
            ("{", None, "payload"),
            ("1", Some("[]"), "options"),
            ("1", Some(r#"{"idempotencyKey":"x"}"#), "column of its own"),
        ] {
            let refused = row(payload, options).publish().unwrap_err();
            assert!(refused.reason.contains(expected), "{refused:?}");
        }
    }
}
