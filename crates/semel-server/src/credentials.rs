//! API keys: how they are made, told from typos, and kept.
//!
//! A key is `sml_`, 30 random characters and 6 of a checksum, in base 62. The prefix lets secret scanners find keys that
//! leaked; the checksum tells a typo from a key that was revoked without asking the store. What is stored is a hash: 178
//! random bits need no slow one.

use std::fmt;

use rand::RngExt;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every key begins with.
pub const PREFIX: &str = "sml_";

const RANDOM: usize = 30;
const CHECKSUM: usize = 6;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Text that must not be seen by accident: whoever prints or logs it gets a placeholder.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret into custody.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself. Every call is a place to look at when secrets leak.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

/// Makes a new API key.
pub fn mint() -> Secret {
    let mut rng = rand::rng();
    let random = std::iter::repeat_with(|| char::from(DIGITS[rng.random_range(0..DIGITS.len())]));
    let mut key: String = PREFIX.chars().chain(random.take(RANDOM)).collect();
    key.push_str(&checksum(&key));
    Secret(key)
}

/// Whether this can be an API key at all: one that is not was mistyped or cut short, and need not be looked up.
pub fn well_formed(key: &str) -> bool {
    let shaped = key.len() == PREFIX.len() + RANDOM + CHECKSUM
        && key.starts_with(PREFIX)
        && key.bytes().skip(PREFIX.len()).all(|b| b.is_ascii_alphanumeric());
    shaped && {
        let (body, sum) = key.split_at(PREFIX.len() + RANDOM);
        checksum(body) == sum
    }
}

/// What is stored of a key: its SHA-256, in hexadecimal.
pub fn hash(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether two hashes are the same, in a time that does not tell how much of them is.
pub fn same_hash(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn checksum(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    let mut number = digest.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let base = DIGITS.len() as u64;
    let next = || {
        let digit = usize::try_from(number % base).unwrap_or_default();
        number /= base;
        char::from(DIGITS[digit])
    };
    std::iter::repeat_with(next).take(CHECKSUM).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_key_is_well_formed_and_no_two_are_the_same() {
        let (one, other) = (mint(), mint());
        assert_ne!(one, other);
        for key in [one, other] {
            assert_eq!(key.expose().len(), 40);
            assert!(key.expose().starts_with("sml_") && well_formed(key.expose()), "{}", key.expose());
        }
    }

    #[test]
    fn the_form_of_a_key_never_changes() {
        let body = format!("sml_{}", "0".repeat(30));
        assert_eq!(checksum(&body), "D3DKB5");
        assert!(well_formed(&format!("{body}D3DKB5")));
    }

    #[test]
    fn every_single_typo_is_told_from_a_key() {
        let key = mint();
        for at in 0..key.expose().len() {
            let mut typo = key.expose().as_bytes().to_vec();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            assert!(!well_formed(&String::from_utf8(typo).unwrap()), "at {at}");
        }
        let cut = &key.expose()[..39];
        for wrong in ["", "sml_", cut, "sml_ünïcödeünïcödeünïcödeünï", &"x".repeat(10_000)] {
            assert!(!well_formed(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_not_shown_by_accident() {
        let key = mint();
        let shown = format!("{key} {key:?} {:?}", Some(&key));
        assert!(!shown.contains(PREFIX), "{shown}");
    }

    #[test]
    fn the_hash_is_the_one_everybody_knows() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash("abc"), known);
        assert!(same_hash(&hash("abc"), known) && !same_hash(&hash("abd"), known));
    }
}
