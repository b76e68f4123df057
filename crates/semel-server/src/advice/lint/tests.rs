//! The lint as a whole: good keys are left alone, and each kind of bad one is recognised.

use proptest::prelude::*;
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::payload::Payload;
use semel_core::publish::Draft;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);

/// A lint that is told of publishes as they come.
#[derive(Default)]
struct Stage {
    lint: Lint,
    reuse: Reuse,
    seen: u64,
}

impl Stage {
    /// A publish that made a job.
    fn create(&mut self, key: &str, payload: &str, at: Timestamp) {
        self.seen += 1;
        let answer = answer(self.seen, 0);
        self.lint.published(&asked(key, payload, None), &answer, &mut self.reuse, at);
    }

    /// What it says: random, times in keys of the same payload, times in nearly all keys.
    fn says(&self, now: Timestamp) -> (bool, bool, bool) {
        let random = !self.lint.random_keys(now).is_empty();
        let timed = !self.lint.timed_keys(now).is_empty();
        (random, timed, self.lint.minted_keys(now).is_some())
    }
}

/// The answer to a publish: of a new job, or of one that was published again.
fn answer(id: u64, duplicates: u32) -> Published {
    Published {
        id: JobId::from_raw(id).unwrap(),
        state: State::Pending,
        created_at: NOW,
        deduplicated: duplicates > 0,
        payload_matches: true,
        duplicates,
        key_expires_at: None,
    }
}

fn asked(key: &str, payload: &str, publisher: Option<&str>) -> Asked {
    let payload = Payload::from_json(payload.to_owned()).unwrap();
    let mut draft = Draft::new(QueueName::try_from("q").unwrap(), payload);
    draft.key = Some(Key::try_from(key).unwrap());
    draft.publisher = publisher.map(str::to_owned);
    Asked::of(&draft.check().unwrap())
}

/// Makes numbers look drawn.
const SCATTER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

const NOTHING: (bool, bool, bool) = (false, false, false);

fn after(seconds: u64) -> Timestamp {
    NOW.plus(Millis::from_secs(seconds))
}

/// Crockford's alphabet, as ULIDs are written.
fn ulid(at: Timestamp, random: u128) -> String {
    let number = u128::from(at.millis()) << 80 | random >> 48;
    let digit =
        |n: u32| b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"[usize::try_from(number >> (5 * n) & 31).unwrap()];
    (0..26).rev().map(|n| char::from(digit(n))).collect()
}

fn uuid7(at: Timestamp, random: u128) -> String {
    let hex = format!("{:012x}7{:03x}{:016x}", at.millis(), random % 0xfff, random >> 64 | 1 << 63);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn uuid4(random: u128) -> String {
    let hex = format!("{random:032x}");
    format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// One key for one piece of work, whatever it is made of: nothing is said.
    #[test]
    fn good_keys_are_left_alone(kind in 0..7_usize, drawn in prop::collection::vec(any::<u128>(), 50..150), first in 1_u64..10_000_000_000) {
        let mut stage = Stage::default();
        for (n, random) in drawn.into_iter().enumerate() {
            let n = n as u64;
            let at = NOW.plus(Millis::from_millis(n * 731));
            let order = first + n;
            let key = match kind {
                0 => uuid4(random),
                1 => ulid(at, random),
                2 => uuid7(at, random),
                3 => format!("order-{order}"),
                4 => format!("charge/{order}/tenant-{}", random % 7),
                5 => format!("report-2026-{:02}-{:02}", random % 12 + 1, n % 28 + 1) + &format!("-{order}"),
                _ => order.to_string(),
            };
            stage.create(&key, &format!("{{\"order\": {order}}}"), at);
        }
        prop_assert_eq!(stage.says(after(120)), NOTHING);
    }

    /// The same work under natural keys and one payload for all of it: the payload does not say what it is about.
    #[test]
    fn one_payload_for_many_natural_keys_is_left_alone(keys in prop::collection::hash_set("[a-z]{3,12}(-[0-9]{1,8})?", 10..60)) {
        let mut stage = Stage::default();
        for (n, key) in keys.iter().enumerate() {
            stage.create(key, r#"{"template": "welcome"}"#, after(n as u64));
        }
        prop_assert_eq!(stage.says(after(60)), NOTHING);
    }

    /// A key drawn for every try, of whatever kind, is recognised, however many other publishes there are.
    #[test]
    fn a_key_that_is_drawn_for_every_try_is_recognised(kind in 0..4_usize, drawn in prop::collection::vec(any::<u128>(), 8), others in 0..200_u64) {
        let mut stage = Stage::default();
        for (n, random) in drawn.into_iter().enumerate() {
            let at = after(n as u64 * 3);
            let key = match kind {
                0 => uuid4(random),
                1 => format!("order-17-{:016x}", random >> 64),
                2 => ulid(at, random),
                _ => format!("order-17-{}", at.millis() + 137),
            };
            stage.create(&key, r#"{"order": 17}"#, at);
            (0..others).for_each(|n| stage.create(&format!("o-{n}-{key}"), &format!("{{\"order\": {n}, \"k\": \"{key}\"}}"), at));
        }
        let (random, timed, _) = stage.says(after(60));
        prop_assert_eq!((random, timed), (kind < 3, kind == 3));
    }
}

#[test]
fn nearly_all_keys_with_the_time_of_their_publish_are_told_of() {
    let mut stage = Stage::default();
    for n in 0..30_u64 {
        let at = NOW.plus(Millis::from_millis(n * 1_337));
        stage.create(&format!("event-{}", at.millis() - 3), &format!("{{\"n\": {n}}}"), at);
    }
    assert_eq!(stage.says(after(60)), (false, false, true));
    assert_eq!(stage.says(after(3600)), NOTHING, "and no longer when it is over");
}

#[test]
fn ticks_of_schedules_and_empty_payloads_say_nothing() {
    let mut stage = Stage::default();
    let answer = answer(1, 0);
    for n in 0..30_u64 {
        let tick = asked(&format!("schedule:x:{}", NOW.millis() + n), r#"{"a": 1}"#, Some("schedule:x"));
        stage.lint.published(&tick, &answer, &mut stage.reuse, after(n));
        stage.create(&uuid4(u128::from(n + 1).wrapping_mul(SCATTER)), "{}", after(n));
    }
    assert_eq!(stage.says(after(60)), NOTHING);
}

#[test]
fn the_most_persistent_jobs_are_remembered() {
    let mut stage = Stage::default();
    let mut again = |id: u64, duplicates: u32| {
        let answer = answer(id, duplicates);
        stage.lint.published(&asked(&format!("k-{id}"), "1", None), &answer, &mut stage.reuse, NOW);
    };
    again(1, 60);
    (2..100).for_each(|id| again(id, 1));
    again(100, 70);
    let found: Vec<_> = stage.lint.persistent(50, NOW).iter().map(|job| job.times).collect();
    assert_eq!(found, [70, 60]);
    assert!(stage.lint.persistent(50, after(3601)).is_empty());
}

#[test]
fn keys_in_two_queues_are_paired() {
    let mut reuse = Reuse::default();
    let queues = ["a", "b"].map(|name| QueueName::try_from(name).unwrap());
    for n in 0..10_u64 {
        let key = Key::try_from(format!("order-{n}")).unwrap();
        let hash = xxh3_64(key.as_str().as_bytes());
        reuse.note(&queues[0], &key, hash, n, NOW);
        reuse.note(&queues[1], &key, hash, n % 2, NOW);
        reuse.note(&queues[1], &key, hash, n, NOW);
    }
    let found: Vec<_> = reuse.recent(NOW).collect();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].keys, found[0].same_payload, found[0].samples.len()), (10, 2, 3));
    assert_eq!(reuse.recent(after(3601)).count(), 0);
    reuse.forget(&queues[1]);
    assert_eq!(reuse.recent(NOW).count(), 0);
}
