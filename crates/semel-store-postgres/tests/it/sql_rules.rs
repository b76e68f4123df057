//! The single rules that are written twice, in Rust and in SQL: which key fits, what a gate learns, how ids are written. Those about
//! JSON are in a file of their own.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use semel_cluster::Database;
use semel_core::breaker::Breaker;
use semel_core::gate::{Gate, Signal};
use semel_core::hold::Hold;
use semel_core::ids::{JobId, Token};
use semel_core::queue::{BreakerConfig, QueueConfig, Rules};
use semel_core::time::{Millis, Timestamp};
use tokio::runtime::Runtime;
use tokio_postgres::Client;
use tokio_postgres::types::{FromSqlOwned, ToSql};

use crate::harness::{connect, database, runtime};

/// Examples per rule. Each is a round trip.
const CASES: u32 = 400;

/// The rules in SQL.
pub(crate) struct Sql {
    runtime: Runtime,
    client: Client,
    _database: Database<'static>,
}

impl Sql {
    pub(crate) fn new() -> Self {
        let (runtime, database) = (runtime(), database());
        let client = runtime.block_on(connect(database.url()));
        Self { runtime, client, _database: database }
    }

    pub(crate) fn ask<T: FromSqlOwned>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T {
        let row = self.runtime.block_on(self.client.query_one(sql, params));
        row.unwrap_or_else(|error| panic!("{sql} {params:?}: {error:?}")).get(0)
    }

    fn fits(&self, key: &str, pattern: &str) -> Option<bool> {
        self.ask("SELECT semel.key_fits($1, $2)", &[&key, &pattern])
    }
}

/// Holds a rule to examples.
pub(crate) fn check<S: Strategy>(examples: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(examples, test).unwrap();
}

fn by_the_law(key: &str, pattern: &str) -> Option<bool> {
    let config = QueueConfig { key_pattern: Some(pattern.to_owned()), ..QueueConfig::default() };
    Rules::new(config).ok().map(|rules| rules.key_matches(key))
}

#[test]
fn plain_patterns_are_judged_and_others_left_to_the_server() {
    let sql = Sql::new();
    let keys = [
        "order-17",
        "order-",
        "refund-9",
        "order-17-6fa9c0d2",
        "ORDER-1",
        "a.b",
        "axb",
        "größe-1",
        "٣",
        "a b",
        "a-z",
        "]",
    ];
    let judged = [
        r"order-\d+|refund-\d+",
        r"^order-\d+$",
        r"[a-z0-9-]{1,255}",
        r"(?:order|refund)-[0-9]*",
        r"\w+(-\w+)?",
        r"[^/]+",
        r"a\.b",
        r"[a\-z]+",
        r"[-a]+",
        r"[\w.]+",
        ".*",
        "",
        "größe-[0-9]",
        r"\S+",
        r"[\]]",
        "(a|b|)x?b",
        "o.{3,5}-??1.*?",
        "(|order)-17",
    ];
    for pattern in judged {
        for key in keys {
            let judgement = sql.fits(key, pattern);
            let left = !key.is_ascii() && pattern.contains(['d', 'w', 'S']) && pattern.contains('\\');
            assert!(judgement.is_some() || left, "{pattern} {key}");
            assert!(
                judgement.is_none() || judgement == by_the_law(key, pattern),
                "{pattern} {key}: {judgement:?}"
            );
        }
    }
    let left = [
        "(?i)order",
        r"\pL+",
        r"\bx\b",
        r"[a-z&&[^b]]",
        r"[[:alpha:]]",
        r"(?P<n>a)",
        r"(?<n>a)",
        r"\x41",
        r"\<a",
        r"[a--b]",
        r"a{,3}",
        r"a**",
        r"(a{2}){300}",
        r"a{300}",
        r"\Aa\z",
        r"[\D]",
        "(?x) a b",
        r"\u{61}",
        "[a~~b]",
        "x{2}{3}",
        "(?-u:a)",
    ];
    for pattern in left {
        assert_eq!(sql.fits("a", pattern), None, "{pattern}");
    }
}

/// Patterns from all that is common, and some that is not.
fn pattern() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "-",
        "1",
        ".",
        "\\.",
        "\\d",
        "\\w",
        "\\s",
        "\\D",
        "\\W",
        "[a-c]",
        "[^a]",
        "[a-]",
        "[\\d.]",
        "(",
        "(?:",
        ")",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{1,}",
        "{0,2}",
        "^",
        "$",
        "é",
        " ",
        "[é]",
        "\\-",
        "[^\\w]",
        "??",
        "\\<",
        "(?i)",
        "[[:digit:]]",
        "&",
        "~",
        "[a&&b]",
    ]);
    prop::collection::vec(piece, 0..6).prop_map(|all| all.concat())
}

#[test]
fn no_pattern_is_judged_otherwise_than_by_the_server() {
    let sql = Sql::new();
    let key = prop_oneof![2 => "[ab1 .-]{1,5}", 1 => "[abé1٣]{1,4}"];
    let judged = std::cell::Cell::new(0);
    check(&(pattern(), key), |(pattern, key)| {
        // What the server does not take as a pattern no queue has.
        if let (Some(law), Some(judgement)) = (by_the_law(&key, &pattern), sql.fits(&key, &pattern)) {
            judged.set(judged.get() + 1);
            prop_assert_eq!(judgement, law, "{:?} {:?}", pattern, key);
        }
        Ok(())
    });
    assert!(judged.get() > CASES / 10, "too few patterns were judged: {}", judged.get());
}

#[test]
fn ids_and_tokens_are_written_and_read_alike() {
    let sql = Sql::new();
    check(&any::<u64>(), |raw| {
        let token = Token::from_raw(raw);
        let read: Option<i64> = sql.ask("SELECT semel.read_base32('lse_', $1)", &[&token.to_string()]);
        prop_assert_eq!(read, Some(raw.cast_signed()));
        if let Some(id) = JobId::from_raw(raw) {
            let written: String = sql.ask("SELECT semel.write_base32('job_', $1)", &[&raw.cast_signed()]);
            prop_assert_eq!(written, id.to_string());
        }
        Ok(())
    });
    for bad in [
        "",
        "job_",
        "job_0000000000000x",
        "lse_0000000000001",
        "job_zzzzzzzzzzzzz",
        "job_000000000000I",
        "job_000000000000u",
    ] {
        assert_eq!(sql.ask::<Option<i64>>("SELECT semel.read_base32('job_', $1)", &[&bad]), None, "{bad}");
    }
}

fn gate() -> impl Strategy<Value = Gate> {
    let time = Timestamp::from_millis(1_800_000_000_000);
    let hold = prop::sample::select(vec![Hold::Open, Hold::Until(time), Hold::Probing]);
    let breaker = prop::sample::select(vec![
        Breaker::Closed { failures: 0 },
        Breaker::Closed { failures: 2 },
        Breaker::Open { until: time },
        Breaker::HalfOpen { probing: true },
        Breaker::HalfOpen { probing: false },
    ]);
    let probe = prop::sample::select(vec![None, JobId::from_raw(7), JobId::from_raw(8)]);
    (any::<bool>(), hold, breaker, probe).prop_map(|(paused, hold, breaker, probe)| Gate {
        paused,
        hold,
        breaker,
        probe,
        ..Gate::default()
    })
}

#[test]
fn a_gate_learns_the_same_from_a_success() {
    let sql = Sql::new();
    let breaker = BreakerConfig { failures: 3, cooldown: Millis::from_secs(10) };
    check(&(gate(), any::<bool>()), |(gate, has_breaker)| {
        let config = QueueConfig { breaker: has_breaker.then_some(breaker), ..QueueConfig::default() };
        let mut told = gate.clone();
        told.settled(&config, JobId::from_raw(7).unwrap(), Signal::Success, Timestamp::default());
        let before = serde_json::to_string(&gate).unwrap();
        let after: String = sql
            .ask("SELECT semel.gate_after_success($1::text::jsonb, 7, $2)::text", &[&before, &has_breaker]);
        prop_assert_eq!(serde_json::from_str::<Gate>(&after).unwrap(), told, "{}", before);
        Ok(())
    });
}
