//! What the benchmark publishes: every job is a function of its number, so that any of ten million can be sent again
//! without having been kept.

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Publish};

use crate::failure::Failure;

/// Queues the jobs are spread over, in turns.
pub(crate) const QUEUES: u64 = 16;
/// Bytes of one payload.
pub(crate) const PAYLOAD_BYTES: usize = 512;
/// Bytes of one key.
pub(crate) const KEY_BYTES: usize = 28;
/// Publishes of one commit.
pub(crate) const BATCH: usize = 128;
/// How many of a hundred publishes repeat an earlier one, payload and all, as a publisher's retry does.
pub(crate) const REPEATS_PERCENT: u32 = 5;
/// A repeat is one of this many newest jobs, or (as often) any job ever published: retries come soon, late ones at random.
pub(crate) const RECENT: u64 = 10_000;

/// 64 characters that need no escape in JSON: six bits of chance a byte is close to what does not compress.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A stream of publishes that can be taken up again at any job.
#[derive(Debug)]
pub(crate) struct Workload {
    queues: Vec<QueueName>,
    next: u64,
    repeats: bool,
    chance: SmallRng,
}

impl Workload {
    /// A stream that goes on after `published` jobs, with repeats among them.
    pub(crate) fn after(published: u64) -> Result<Self, Failure> {
        let queues =
            (0..QUEUES).map(|n| QueueName::try_from(format!("bench-{n:02}"))).collect::<Result<_, _>>()?;
        Ok(Self { queues, next: published, repeats: true, chance: SmallRng::seed_from_u64(published) })
    }

    /// The same stream in which every publish is a new job.
    pub(crate) fn without_repeats(mut self) -> Self {
        self.repeats = false;
        self
    }

    /// The queues that must exist.
    pub(crate) fn queues(&self) -> &[QueueName] {
        &self.queues
    }

    /// How many different jobs have been handed out, all streams before this one included.
    pub(crate) fn published(&self) -> u64 {
        self.next
    }

    /// The next publishes.
    pub(crate) fn batch(&mut self, size: usize) -> Result<Vec<Publish>, Failure> {
        (0..size).map(|_| self.publish()).collect()
    }

    fn publish(&mut self) -> Result<Publish, Failure> {
        let number = if self.repeats && self.chance.random_range(0..100) < REPEATS_PERCENT && self.next > 0 {
            self.earlier()
        } else {
            self.next += 1;
            self.next - 1
        };
        self.job(number)
    }

    fn earlier(&mut self) -> u64 {
        let oldest = if self.chance.random() { self.next.saturating_sub(RECENT) } else { 0 };
        self.chance.random_range(oldest..self.next)
    }

    /// The job of a number, the same each time.
    fn job(&self, number: u64) -> Result<Publish, Failure> {
        let mut random = SmallRng::seed_from_u64(number);
        let key = key_text(number, &mut random);
        let queue = &self.queues[usize::try_from(number % QUEUES).expect("16 queues fit a usize")];
        // Our own text is known to be JSON, as the API's is once it has been parsed: the store is measured, not the parser.
        let payload = Payload::from_parsed(payload_text(number, &mut random));
        Ok(Draft::new(queue.clone(), payload).with_key(Key::try_from(key)?).check()?)
    }

    /// The queue and key of a number: to ask a store whether it has that job.
    pub(crate) fn key(&self, number: u64) -> Result<(QueueName, Key), Failure> {
        let key = key_text(number, &mut SmallRng::seed_from_u64(number));
        Ok((
            self.queues[usize::try_from(number % QUEUES).expect("16 queues fit a usize")].clone(),
            Key::try_from(key)?,
        ))
    }
}

/// 28 bytes: the number makes it unique (11 of them), the rest is chance, and the order of keys is no order of time.
fn key_text(number: u64, random: &mut SmallRng) -> String {
    let mut text = String::with_capacity(KEY_BYTES);
    push_random(&mut text, KEY_BYTES - 11, random);
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..11).for_each(|place| text.push(letter(scattered >> (6 * place))));
    text
}

fn payload_text(number: u64, random: &mut SmallRng) -> String {
    let mut text = String::with_capacity(PAYLOAD_BYTES);
    text.push_str(&format!(r#"{{"order":{number},"note":""#));
    let end = r#""}"#;
    let filling = PAYLOAD_BYTES - end.len() - text.len();
    push_random(&mut text, filling, random);
    text + end
}

fn push_random(text: &mut String, length: usize, random: &mut SmallRng) {
    let mut left = length;
    while left > 0 {
        let bits = random.next_u64();
        let now = left.min(10);
        (0..now).for_each(|place| text.push(letter(bits >> (6 * place))));
        left -= now;
    }
}

fn letter(bits: u64) -> char {
    char::from(ALPHABET[usize::try_from(bits & 63).expect("six bits fit a usize")])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_job_is_a_function_of_its_number() {
        let workload = Workload::after(0).unwrap();
        for number in [0, 1, 15, 16, 9_999_999, u64::MAX] {
            let publish = workload.job(number).unwrap();
            assert_eq!(publish, workload.job(number).unwrap());
            let draft = publish.draft();
            assert_eq!(draft.payload.len(), PAYLOAD_BYTES);
            assert!(Payload::from_json(draft.payload.bytes().clone()).is_ok());
            let key = draft.key.clone().unwrap();
            assert_eq!(key.as_str().len(), KEY_BYTES);
            assert_eq!(workload.key(number).unwrap(), (draft.queue.clone(), key));
        }
    }

    #[test]
    fn one_publish_in_twenty_repeats_an_earlier_one() {
        let mut workload = Workload::after(50_000).unwrap();
        let batch = workload.batch(10_000).unwrap();
        let new = workload.published() - 50_000;
        assert!((9400..9600).contains(&new), "{new}");
        let keys: HashSet<_> = batch.iter().map(|p| p.draft().key.clone()).collect();
        assert!(keys.len() as u64 >= new, "new keys are unique");
        assert_eq!(Workload::after(7).unwrap().without_repeats().batch(500).unwrap().len(), 500);
    }
}
