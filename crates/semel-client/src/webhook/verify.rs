//! Whether a webhook's request is genuine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;

use crate::Delivery;

/// How old a request may be, and how far in the future: what Standard Webhooks recommends. Within it, somebody who
/// recorded a request can send it again; the lease in it is then not the current one any more.
const TOLERANCE: Duration = Duration::from_secs(300);

/// Reads base64 with or without padding, as the libraries of Standard Webhooks do.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Verifies requests of one queue.
#[derive(Clone)]
pub struct Verifier {
    secrets: Vec<String>,
    tolerance: Duration,
    simpleq: bool,
}

/// Why a request is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Rejection {
    /// A header is missing, or is no text.
    #[error(
        "the header {0} is missing or no text: is this a webhook of Semel, and does a proxy drop headers?"
    )]
    Header(&'static str),
    /// The time in it is too far from ours.
    #[error("it was signed {0} s from now: the request is an old one, or one of the clocks is wrong")]
    Time(u64),
    /// No signature in it is by one of our secrets.
    #[error(
        "no signature is by a secret of ours: is it that of this queue, and was the body changed on the way?"
    )]
    Signature,
    /// It is signed, and is no delivery.
    #[error("it is signed, and cannot be read as a delivery: {0}")]
    Body(#[source] serde_json::Error),
}

impl Verifier {
    /// By the secrets of a queue, `whsec_...`: one, or while a secret rotates the old and the new one.
    pub fn new(secrets: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let secrets = secrets.into_iter().map(Into::into).collect();
        Self { secrets, tolerance: TOLERANCE, simpleq: false }
    }

    /// How far the time in a request may be from ours (5 minutes).
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Takes `x-simpleq-signature` as well, for requests that have no other signature. It covers no time, so whoever
    /// recorded a request can send it again at any time.
    #[must_use]
    pub fn simpleq(mut self) -> Self {
        self.simpleq = true;
        self
    }

    /// Verifies a request and reads the delivery in it. The body is what came, byte for byte.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Delivery, Rejection> {
        self.verify_at(headers, body, SystemTime::now())
    }

    /// The same by another clock than the system's.
    pub fn verify_at(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<Delivery, Rejection> {
        if self.simpleq && !headers.contains_key("webhook-signature") {
            self.verify_simpleq(headers, body)?;
        } else {
            self.verify_standard(headers, body, now)?;
        }
        serde_json::from_slice(body).map_err(Rejection::Body)
    }

    fn verify_standard(&self, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Result<(), Rejection> {
        let id = header(headers, "webhook-id")?;
        let timestamp = header(headers, "webhook-timestamp")?;
        let signatures = header(headers, "webhook-signature")?;
        self.in_time(timestamp, now)?;
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        let given = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,"));
        let given: Vec<_> = given.filter_map(|signature| LENIENT.decode(signature).ok()).collect();
        let genuine = self.secrets.iter().any(|secret| {
            let mac = mac(&key(secret), &parts);
            given.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
        });
        genuine.then_some(()).ok_or(Rejection::Signature)
    }

    /// The key is the text of the secret: SimpleQ knows no encoding of secrets.
    fn verify_simpleq(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Rejection> {
        let given = header(headers, "x-simpleq-signature")?;
        let given = given.strip_prefix("sha256=").and_then(from_hex).ok_or(Rejection::Signature)?;
        let by = |secret: &String| mac(secret.as_bytes(), &[body]).verify_slice(&given).is_ok();
        self.secrets.iter().any(by).then_some(()).ok_or(Rejection::Signature)
    }

    fn in_time(&self, timestamp: &str, now: SystemTime) -> Result<(), Rejection> {
        let seconds: u64 = timestamp.parse().map_err(|_| Rejection::Header("webhook-timestamp"))?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let apart = now.abs_diff(seconds);
        if apart > self.tolerance.as_secs() { Err(Rejection::Time(apart)) } else { Ok(()) }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Rejection> {
    headers.get(name).and_then(|value| value.to_str().ok()).ok_or(Rejection::Header(name))
}

/// The key that a secret encodes: the bytes of the base64 after `whsec_`, which may be missing. A secret that is no base64
/// is its own key.
fn key(secret: &str) -> Vec<u8> {
    let encoded = secret.strip_prefix("whsec_").unwrap_or(secret);
    LENIENT.decode(encoded).unwrap_or_else(|_| secret.as_bytes().to_vec())
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use semel_server::delivery::sign::{sign, sign_simpleq};

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const NOW: u64 = 1_794_744_000;
    const BODY: &str = r#"{"id":"job_1","queue":"q","payload":"ä","attempt":1,"maxAttempts":5,"deferCount":0,
        "createdAt":"2026-11-15T12:00:00.000Z","lease":"lse_1","deliveryId":"dlv_1","deadline":"2026-11-15T12:00:30.000Z"}"#;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn signed(secrets: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", "job_1".parse().unwrap());
        headers.insert("webhook-timestamp", NOW.into());
        let signature = sign(secrets, "job_1", NOW, BODY.as_bytes());
        headers.insert("webhook-signature", signature.parse().unwrap());
        headers
    }

    /// The signature was made by the package `standardwebhooks` 1.1.0 from PyPI.
    #[test]
    fn a_signature_of_the_reference_library_is_genuine() {
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().unwrap());
        headers.insert("webhook-timestamp", 1_614_265_330.into());
        let signature = "v1a,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        headers.insert("webhook-signature", signature.parse().unwrap());
        let body = br#"{"test": 2432232314}"#;
        let verified = Verifier::new([SECRET]).verify_at(&headers, body, at(1_614_265_330));
        assert!(matches!(verified, Err(Rejection::Body(_))), "genuine, and no delivery: {verified:?}");
    }

    #[test]
    fn while_a_secret_rotates_either_will_do() {
        for (theirs, ours) in [
            (&[SECRET][..], &[SECRET][..]),
            (&[SECRET, OTHER], &[OTHER]),
            (&[OTHER, SECRET], &[OTHER]),
            (&[OTHER], &[SECRET, OTHER]),
        ] {
            let verified =
                Verifier::new(ours.iter().copied()).verify_at(&signed(theirs), BODY.as_bytes(), at(NOW));
            assert_eq!(verified.unwrap().payload::<String>().unwrap(), "ä");
        }
        let stranger = Verifier::new([OTHER]).verify_at(&signed(&[SECRET]), BODY.as_bytes(), at(NOW));
        assert!(matches!(stranger, Err(Rejection::Signature)), "{stranger:?}");
        let none = Verifier::new([""; 0]).verify_at(&signed(&[SECRET]), BODY.as_bytes(), at(NOW));
        assert!(matches!(none, Err(Rejection::Signature)), "{none:?}");
    }

    #[test]
    fn whatever_is_changed_shows() {
        let verify = |headers: &HeaderMap, body: &str, now| {
            Verifier::new([SECRET]).verify_at(headers, body.as_bytes(), at(now))
        };
        let body = BODY.replace("\"attempt\":1", "\"attempt\":2");
        assert!(matches!(verify(&signed(&[SECRET]), &body, NOW), Err(Rejection::Signature)));
        let mut headers = signed(&[SECRET]);
        headers.insert("webhook-id", "job_2".parse().unwrap());
        assert!(matches!(verify(&headers, BODY, NOW), Err(Rejection::Signature)));
        let mut headers = signed(&[SECRET]);
        headers.insert("webhook-timestamp", (NOW + 1).into());
        assert!(matches!(verify(&headers, BODY, NOW), Err(Rejection::Signature)));
    }

    #[test]
    fn an_old_request_is_refused_and_so_is_one_from_the_future() {
        let verify = |now| Verifier::new([SECRET]).verify_at(&signed(&[SECRET]), BODY.as_bytes(), at(now));
        for now in [NOW - 300, NOW + 300] {
            assert!(verify(now).is_ok());
        }
        for now in [NOW - 301, NOW + 301] {
            assert!(matches!(verify(now), Err(Rejection::Time(301))));
        }
    }

    #[test]
    fn a_missing_header_is_named() {
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut headers = signed(&[SECRET]);
            headers.remove(name);
            let refused = Verifier::new([SECRET]).verify_at(&headers, BODY.as_bytes(), at(NOW));
            assert!(matches!(refused, Err(Rejection::Header(missing)) if missing == name), "{refused:?}");
        }
    }

    #[test]
    fn simpleq_is_taken_only_where_it_is_asked_for() {
        let mut headers = HeaderMap::new();
        headers.insert("x-simpleq-signature", sign_simpleq(SECRET, BODY.as_bytes()).parse().unwrap());
        let plain = Verifier::new([SECRET]);
        assert!(matches!(plain.verify(&headers, BODY.as_bytes()), Err(Rejection::Header("webhook-id"))));
        assert_eq!(plain.clone().simpleq().verify(&headers, BODY.as_bytes()).unwrap().id, "job_1");
        let other = Verifier::new([OTHER]).simpleq().verify(&headers, BODY.as_bytes());
        assert!(matches!(other, Err(Rejection::Signature)));
        for odd in ["sha256=0", "sha256=zz", "sha256=", "md5=00"] {
            headers.insert("x-simpleq-signature", odd.parse().unwrap());
            let refused = plain.clone().simpleq().verify(&headers, BODY.as_bytes());
            assert!(matches!(refused, Err(Rejection::Signature)), "{odd}");
        }
    }
}
