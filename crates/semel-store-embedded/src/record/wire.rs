//! Numbers and bytes on their way into and out of a record.

use semel_core::time::Timestamp;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::VERSION;

/// Length of the checksum that ends every record.
const CHECKSUM_LEN: usize = 8;

/// Why a record could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("its checksum does not match")]
    Checksum,
    #[error("it ends too early")]
    Short,
    #[error("its version {0} is not known to this program")]
    Version(u8),
    #[error("its {0} is not valid")]
    Field(&'static str),
}

/// Starts a record.
pub(super) fn begin(out: &mut Vec<u8>) {
    out.clear();
    out.push(VERSION);
}

/// Ends a record with its checksum.
pub(super) fn seal(out: &mut Vec<u8>, id: u64) {
    let checksum = xxh3_64_with_seed(out, id);
    out.extend_from_slice(&checksum.to_le_bytes());
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a time as its distance from one that is near and known, because distances are short.
pub(super) fn put_time(out: &mut Vec<u8>, time: Timestamp, near: Timestamp) {
    let distance = time.millis().wrapping_sub(near.millis()).cast_signed();
    put_varint(out, ((distance << 1) ^ (distance >> 63)).cast_unsigned());
}

/// Reads a record from its start.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Checks the checksum and the version, and stands at the first field.
    pub(crate) fn open(record: &'a [u8], id: u64) -> Result<Self, Damage> {
        let (body, checksum) =
            record.split_at_checked(record.len().saturating_sub(CHECKSUM_LEN)).ok_or(Damage::Short)?;
        let expected = xxh3_64_with_seed(body, id).to_le_bytes();
        if checksum != expected {
            return Err(Damage::Checksum);
        }
        match body.split_first() {
            Some((&VERSION, rest)) => Ok(Self(rest)),
            Some((&other, _)) => Err(Damage::Version(other)),
            None => Err(Damage::Short),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Damage> {
        let (&first, rest) = self.0.split_first().ok_or(Damage::Short)?;
        self.0 = rest;
        Ok(first)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damage::Field("number"))
    }

    pub(super) fn small(&mut self) -> Result<u32, Damage> {
        u32::try_from(self.varint()?).map_err(|_| Damage::Field("number"))
    }

    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Damage::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        let length = usize::try_from(self.varint()?).map_err(|_| Damage::Short)?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Damage> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damage::Field("text"))
    }

    pub(super) fn time(&mut self, near: Timestamp) -> Result<Timestamp, Damage> {
        let folded = self.varint()?;
        let distance = (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed());
        Ok(Timestamp::from_millis(near.millis().wrapping_add(distance.cast_unsigned())))
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// A record whose content is JSON: for the few rows (queues, schedules, API keys) where readability beats size.
pub(crate) fn seal_json<T: serde::Serialize>(value: &T, id: u64) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::new();
    begin(&mut out);
    serde_json::to_writer(&mut out, value)?;
    seal(&mut out, id);
    Ok(out)
}

/// Reads what [`seal_json`] wrote.
pub(crate) fn open_json<T: serde::de::DeserializeOwned>(record: &[u8], id: u64) -> Result<T, Damage> {
    let mut reader = Reader::open(record, id)?;
    serde_json::from_slice(reader.rest()).map_err(|_| Damage::Field("content"))
}

/// A record that is a list of numbers.
pub(crate) fn seal_numbers(numbers: &[u64], id: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(numbers.len() * 3 + 16);
    begin(&mut out);
    put_varint(&mut out, numbers.len() as u64);
    numbers.iter().for_each(|&n| put_varint(&mut out, n));
    seal(&mut out, id);
    out
}

/// Reads what [`seal_numbers`] wrote.
pub(crate) fn open_numbers(record: &[u8], id: u64) -> Result<Vec<u64>, Damage> {
    let mut reader = Reader::open(record, id)?;
    let length = reader.small()?;
    (0..length).map(|_| reader.varint()).collect()
}
