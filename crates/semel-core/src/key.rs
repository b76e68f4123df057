//! The sender's idempotency key, and how long it holds.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::name::check_text;
use crate::payload::Payload;
use crate::time::{Millis, Timestamp};
use crate::violation::Violations;

/// A key chosen by the sender, scoped by queue: 1 to 255 characters without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Key(Arc<str>);

impl Key {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Key {
    type Error = Violations;

    fn try_from(text: &str) -> Result<Self, Violations> {
        check_text("idempotencyKey", text)?;
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for Key {
    type Error = Violations;

    fn try_from(text: String) -> Result<Self, Violations> {
        Self::try_from(text.as_str())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A digest of the payload's bytes. It outlives the payload, so that a late duplicate can still be told from a collision.
///
/// It is stored, so the function must never change. It is not keyed: a caller who forges a collision fools only itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// The fingerprint of a payload.
    pub fn of(payload: &Payload) -> Self {
        Self(xxh3_128(payload.bytes()))
    }
}

/// When a key stops holding: never while its job is unfinished, then `window` after the job's end.
///
/// `None` means "not yet known". At exactly the returned time the key is free.
pub fn expires_at(finished_at: Option<Timestamp>, window: Millis) -> Option<Timestamp> {
    finished_at.map(|end| end.plus(window))
}

/// Whether a key still holds at `now`.
pub fn holds(finished_at: Option<Timestamp>, window: Millis, now: Timestamp) -> bool {
    expires_at(finished_at, window).is_none_or(|end| now < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_printable_text() {
        for good in ["o", "order-9482", "größe / 42", &"k".repeat(255)] {
            assert!(Key::try_from(good).is_ok(), "{good:?}");
        }
        for bad in ["", "a\tb", "a\u{7f}", "\u{85}", &"k".repeat(256)] {
            assert!(Key::try_from(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_key_holds_while_its_job_is_unfinished_and_then_for_its_window() {
        let (end, window) = (Timestamp::from_millis(1000), Millis::from_millis(50));
        assert!(holds(None, window, Timestamp::from_millis(u64::MAX)));
        assert!(holds(Some(end), window, Timestamp::from_millis(1049)));
        assert!(!holds(Some(end), window, Timestamp::from_millis(1050)));
    }

    #[test]
    fn a_stored_fingerprint_never_changes_its_meaning() {
        let payload = Payload::from_json("{\"order\":9482}").unwrap();
        assert_eq!(Fingerprint::of(&payload).0, 0xc1d9_c6dd_06b7_90d9_95e5_bc6f_af7a_c4bd);
    }
}
