//! Names that callers choose: queues and groups. A value of these types has been validated.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::violation::Violations;

/// Longest name of a queue or a group, in characters. Names travel in URLs, metric labels and file listings.
pub const NAME_MAX: usize = 255;

/// The name of a queue: letters, digits, `-`, `_`, `.`, `:`; it starts with a letter or a digit.
///
/// The alphabet is that of a URL path segment that needs no escaping: a name looks the same in a URL, a log and a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct QueueName(Arc<str>);

/// The group a job belongs to: any text of 1 to 255 characters without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Group(Arc<str>);

impl QueueName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Group {
    /// The group as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for QueueName {
    type Error = Violations;

    fn try_from(text: &str) -> Result<Self, Violations> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        let starts_well = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if text.len() > NAME_MAX || !starts_well || !text.chars().all(allowed) {
            return Err(Violations::one(
                "queue",
                "a queue name is 1 to 255 letters, digits, '-', '_', '.' or ':' and starts with a letter or digit",
            ));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<&str> for Group {
    type Error = Violations;

    fn try_from(text: &str) -> Result<Self, Violations> {
        check_text("group", text)?;
        Ok(Self(text.into()))
    }
}

/// The rule shared by groups and keys: 1 to 255 characters, none of them a control character.
pub(crate) fn check_text(field: &str, text: &str) -> Result<(), Violations> {
    let length = text.chars().count();
    if length == 0 || length > NAME_MAX {
        return Err(Violations::one(field, format!("must be 1 to {NAME_MAX} characters long, got {length}")));
    }
    if text.chars().any(char::is_control) {
        return Err(Violations::one(field, "must not contain control characters"));
    }
    Ok(())
}

macro_rules! text_newtype {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = Violations;

            fn try_from(text: String) -> Result<Self, Violations> {
                Self::try_from(text.as_str())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_newtype!(QueueName);
text_newtype!(Group);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_name_is_a_plain_url_segment() {
        for good in ["orders", "a", "eu-west.1:mail_out", "0"] {
            assert_eq!(QueueName::try_from(good).unwrap().as_str(), good);
        }
        let long = "q".repeat(256);
        for bad in ["", "../etc", ".hidden", "a b", "a/b", "%2e", "größe", "🦀", "a\0", &long] {
            assert!(QueueName::try_from(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_group_is_any_printable_text() {
        assert!(Group::try_from("tenant 42 / größe").is_ok());
        assert!(Group::try_from("").is_err());
        assert!(Group::try_from("a\nb").is_err());
        assert!(Group::try_from("x".repeat(256).as_str()).is_err());
    }
}
