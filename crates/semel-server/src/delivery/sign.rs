//! Signatures, by which a worker knows that a delivery is from its queue.
//!
//! Standard Webhooks is what every queue sends. SimpleQ's signature is for workers that were written for SimpleQ.

use std::fmt::Write;

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a secret begins with, so that people and secret scanners recognise it.
const PREFIX: &str = "whsec_";

/// Bytes of a new secret: the least that Standard Webhooks recommends, and more than can ever be guessed.
const SECRET_BYTES: usize = 24;

/// Reads base64 with or without padding, as the libraries of Standard Webhooks do.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A new secret: `whsec_` and random bytes in base64.
pub fn new_secret() -> String {
    let bytes: [u8; SECRET_BYTES] = rand::random();
    format!("{PREFIX}{}", STANDARD.encode(bytes))
}

/// The header `webhook-signature` of Standard Webhooks: one signature per secret, so that a worker can change from an old
/// secret to a new one at its own time. `timestamp` is in seconds, as in the header `webhook-timestamp`.
///
/// The key is what the secret encodes: the bytes of the base64 after `whsec_`, which may be missing. A secret that is no
/// base64, brought along from elsewhere, is its own key.
pub fn sign<S: AsRef<str>>(secrets: &[S], id: &str, timestamp: u64, body: &[u8]) -> String {
    let head = format!("{id}.{timestamp}.");
    let mut header = String::new();
    for secret in secrets {
        let separator = if header.is_empty() { "" } else { " " };
        let signature = STANDARD.encode(mac(&key(secret.as_ref()), &[head.as_bytes(), body]));
        header.extend([separator, "v1,", &signature]);
    }
    header
}

/// The header `x-simpleq-signature`: `sha256=` and the HMAC of the body in hexadecimal. The key is the text of the secret as
/// the worker was given it, with its prefix: SimpleQ knows no encoding of secrets.
pub fn sign_simpleq(secret: &str, body: &[u8]) -> String {
    let mut header = "sha256=".to_owned();
    for byte in mac(secret.as_bytes(), &[body]) {
        write!(header, "{byte:02x}").expect("writing to a string cannot fail");
    }
    header
}

fn key(secret: &str) -> Vec<u8> {
    let encoded = secret.strip_prefix(PREFIX).unwrap_or(secret);
    LENIENT.decode(encoded).unwrap_or_else(|_| secret.as_bytes().to_vec())
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIMESTAMP: u64 = 1_614_265_330;
    const BODY: &str = r#"{"test": 2432232314}"#;

    /// The signatures here were made by the package `standardwebhooks` 1.1.0 from PyPI.
    #[test]
    fn signatures_are_those_of_the_reference_library() {
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(sign(&[SECRET], ID, TIMESTAMP, BODY.as_bytes()), signature);
        let umlauts = "v1,fhWvzIfc00x4RBYD0jim8K37WB9o9fXJl0q34nWMkHE=";
        assert_eq!(sign(&[OTHER], "job_1", TIMESTAMP, r#"{"größe": "ä"}"#.as_bytes()), umlauts);
    }

    #[test]
    fn while_a_secret_rotates_there_are_two() {
        let one = |secret| sign(&[secret], ID, TIMESTAMP, BODY.as_bytes());
        let both = sign(&[SECRET, OTHER], ID, TIMESTAMP, BODY.as_bytes());
        assert_eq!(both, format!("{} {}", one(SECRET), one(OTHER)));
        assert_eq!(sign::<&str>(&[], ID, TIMESTAMP, BODY.as_bytes()), "");
    }

    #[test]
    fn everything_that_is_sent_is_signed() {
        let plain = sign(&[SECRET], "a", 1, b"b");
        for other in
            [sign(&[SECRET], "b", 1, b"b"), sign(&[SECRET], "a", 2, b"b"), sign(&[SECRET], "a", 1, b"c")]
        {
            assert_ne!(plain, other);
        }
        assert_ne!(plain, sign(&[SECRET], "a", 1, b"b\xff"), "a body need not be text");
    }

    #[test]
    fn a_secret_is_read_as_the_libraries_read_it() {
        assert_eq!(
            key(SECRET),
            key(SECRET.strip_prefix(PREFIX).unwrap()),
            "the prefix is not part of the key"
        );
        assert_eq!(key("whsec_YQ=="), b"a");
        assert_eq!(key("whsec_YQ"), b"a", "padding may be missing");
        assert_eq!(key("my own secret!"), b"my own secret!");
    }

    /// Made by Python's `hmac`, with the whole text of the secret as its key.
    #[test]
    fn simpleq_signs_the_body_with_the_text_of_the_secret() {
        let expected = "sha256=80ec8a89ce3cd22133a1066caecb4d04fea7467657c8514d717ec42c38a5c94c";
        assert_eq!(sign_simpleq(SECRET, BODY.as_bytes()), expected);
    }

    #[test]
    fn new_secrets_are_long_and_never_the_same() {
        let (a, b) = (new_secret(), new_secret());
        assert_ne!(a, b);
        assert!(a.starts_with(PREFIX));
        assert_eq!(key(&a).len(), SECRET_BYTES);
    }
}
