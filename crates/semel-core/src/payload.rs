//! The payload of a job, or the result of one: JSON, kept byte for byte as it came.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::violation::Violations;

/// JSON text, known to be well formed, cheap to clone and never re-encoded.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(Bytes);

impl Payload {
    /// Takes JSON text as it is, after reading all of it once: what a worker's parser would choke on (128 levels, text
    /// that is not Unicode, a number past all range) is better refused here than delivered again and again.
    pub fn from_json(text: impl Into<Bytes>) -> Result<Self, Violations> {
        let text = text.into();
        serde_json::from_slice::<Valid>(&text)
            .map_err(|e| Violations::one("payload", format!("is not valid JSON: {e}")))?;
        Ok(Self(text))
    }

    /// Takes text that a JSON parser has already accepted: the API's `RawValue`, or bytes whose checksum a store verified.
    pub fn from_parsed(text: impl Into<Bytes>) -> Self {
        Self(text.into())
    }

    /// The JSON text.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "JSON text is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Reads a JSON value completely and keeps nothing. Serde's own `IgnoredAny` skips the checks of depth and of strings.
struct Valid;

impl<'de> Deserialize<'de> for Valid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Valid {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({})", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_byte_for_byte() {
        let odd = br#" {"b" : 1.0, "a":-0 , "b": 18446744073709551616 } "#;
        assert_eq!(&Payload::from_json(&odd[..]).unwrap().bytes()[..], odd);
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        let texts = ["", "{", "nope", "1 2", "\u{feff}1", "\"\u{0}\"", "1e999", r#""\ud800""#, &deep];
        for bad in texts.iter().map(|text| text.as_bytes()).chain([&b"\"\xff\""[..], b"[1,\xff]"]) {
            assert!(Payload::from_json(bad.to_vec()).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
    }
}
