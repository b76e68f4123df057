//! Metadata as a JSON object of strings, in the order in which it was published.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// The entries, in their order. A map would sort them, and a list of pairs is not what people expect to read.
struct Entries<'a>(&'a [(String, String)]);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

struct Read(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(Vec::new()))
    }
}

impl<'de> Visitor<'de> for Read {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(entry) = map.next_entry()? {
            self.0.push(entry);
        }
        Ok(self)
    }
}

/// Writes metadata; nothing if there is none.
pub(super) fn write(entries: &[(String, String)]) -> Option<String> {
    let text = || serde_json::to_string(&Entries(entries)).expect("strings always serialise");
    (!entries.is_empty()).then(text)
}

/// Reads metadata.
pub(crate) fn read(text: Option<&str>) -> Result<Vec<(String, String)>, serde_json::Error> {
    text.map_or_else(|| Ok(Vec::new()), |text| serde_json::from_str::<Read>(text).map(|read| read.0))
}
