//! A publish as the application fills it in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Error;
use crate::overrides::overrides;

/// A publish. What is wrong with it is told when it is published, every field at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub(super) queue: String,
    pub(super) payload: String,
    pub(super) key: Option<String>,
    pub(super) delay: Option<Duration>,
    pub(super) run_at: Option<SystemTime>,
    pub(super) priority: i32,
    pub(super) group: Option<String>,
    pub(super) metadata: Vec<(String, String)>,
    pub(super) options: Map<String, Value>,
    pub(super) publisher: Option<String>,
}

impl Draft {
    /// A plain publish: now, without a key.
    pub fn new(queue: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        Ok(Self::of_json(queue, serde_json::to_string(payload).map_err(Error::Json)?))
    }

    /// The same with a payload that is JSON text already, which is kept byte for byte.
    pub fn of_json(queue: impl Into<String>, payload: impl Into<String>) -> Self {
        Self {
            queue: queue.into(),
            payload: payload.into(),
            key: None,
            delay: None,
            run_at: None,
            priority: 0,
            group: None,
            metadata: Vec::new(),
            options: Map::new(),
            publisher: None,
        }
    }

    /// The key that names the business event. A later publish with it gets this one's job.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Run this long after it was published.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Run at this time.
    #[must_use]
    pub fn run_at(mut self, time: SystemTime) -> Self {
        self.run_at = Some(time);
        self
    }

    /// -100 to 100, higher first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// The group, for order and fairness.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// One more entry that is delivered with the job, and searchable.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// Who publishes, for the trace of duplicates.
    #[must_use]
    pub fn publisher(mut self, publisher: impl Into<String>) -> Self {
        self.publisher = Some(publisher.into());
        self
    }

    fn option(mut self, name: &str, value: Value) -> Self {
        self.options.insert(name.to_owned(), value);
        self
    }
}

overrides!(Draft);

/// What goes into the statement in the places of a draft's parts that are not plain text.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) delay: Option<i64>,
    pub(super) run_at: Option<i64>,
    pub(super) metadata: Option<String>,
    pub(super) options: Option<String>,
}

impl Parts {
    pub(super) fn of(draft: &Draft) -> Self {
        let options = (!draft.options.is_empty()).then(|| Value::Object(draft.options.clone()).to_string());
        Self {
            delay: draft.delay.map(millis),
            // Before 1970 is negative, and refused there.
            run_at: draft.run_at.map(|at| at.duration_since(UNIX_EPOCH).map_or(-1, millis)),
            metadata: metadata(&draft.metadata),
            options,
        }
    }
}

fn millis(span: Duration) -> i64 {
    // What does not fit is too far away for PostgreSQL too, and this is the largest it takes.
    const MOST: i64 = 9_000_000_000_000_000;
    i64::try_from(span.as_millis()).map_or(MOST, |millis| millis.min(MOST))
}

/// Written by hand, because a map would not keep the order, nor a name that is there twice, which is refused.
fn metadata(entries: &[(String, String)]) -> Option<String> {
    let entry = |(name, value): &(String, String)| format!("{}:{}", json!(name), json!(value));
    let all: Vec<_> = entries.iter().map(entry).collect();
    (!all.is_empty()).then(|| format!("{{{}}}", all.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Retry, Strategy};

    #[test]
    fn a_draft_is_written_as_the_function_reads_it() {
        let draft = Draft::new("orders", &json!([1]))
            .unwrap()
            .delay(Duration::from_millis(1500))
            .metadata("b", "1")
            .metadata("a", "\"")
            .max_attempts(3)
            .window(Duration::from_millis(250))
            .retry(Retry {
                strategy: Some(Strategy::Fixed),
                base: Some(Duration::from_secs(2)),
                ..Retry::default()
            });
        let parts = Parts::of(&draft);
        assert_eq!((parts.delay, parts.run_at), (Some(1500), None));
        assert_eq!(parts.metadata.as_deref(), Some(r#"{"b":"1","a":"\""}"#));
        let options: Value = serde_json::from_str(&parts.options.unwrap()).unwrap();
        let retry = json!({ "strategy": "fixed", "base": 2.0 });
        assert_eq!(options, json!({ "maxAttempts": 3, "window": 0.25, "retry": retry }));
    }

    #[test]
    fn times_beyond_all_reason_stay_within_what_can_be_sent() {
        let never = Draft::of_json("q", "1").delay(Duration::MAX);
        assert_eq!(Parts::of(&never).delay, Some(9_000_000_000_000_000));
        let before = Draft::of_json("q", "1").run_at(UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(Parts::of(&before).run_at, Some(-1));
    }
}
