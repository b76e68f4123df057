//! One thing that should be looked at: what it is, how bad, what it means, and which setting to change.

use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A stable code. Each has a section in `docs/operations/doctor.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name that machines go by.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

codes! {
    /// A key is free while its dead letter can still be replayed.
    WindowShort = "window_short",
    /// The ledger forgets an effect while its job can still come back.
    LedgerTtlShort = "ledger_ttl_short",
    /// The queue takes larger payloads than the server takes bodies.
    PayloadLimit = "payload_limit",
    /// A new random key for each retry.
    KeysRandom = "keys_random",
    /// The time of the publish is part of the key.
    KeysTimestamp = "keys_timestamp",
    /// One key stands for many payloads.
    KeysCoarse = "keys_coarse",
    /// The same keys in two queues.
    KeysReused = "keys_reused",
    /// A key came back with another payload.
    Collisions = "collisions",
    /// A key comes back again and again.
    DuplicatesPersistent = "duplicates_persistent",
    /// Handlers take longer than they are given.
    LeaseShort = "lease_short",
    /// Leases run out before their workers settle.
    LeasesExpiring = "leases_expiring",
    /// Most deliveries fail.
    RetryStorm = "retry_storm",
    /// A webhook has not taken a single job.
    EndpointFailing = "endpoint_failing",
    /// Jobs become dead letters in numbers.
    DeadLettersGrowing = "dead_letters_growing",
    /// Backpressure has held a queue for long.
    HeldLong = "held_long",
    /// The breaker has been open for long.
    BreakerOpen = "breaker_open",
    /// Jobs wait in a paused queue.
    PausedBacklog = "paused_backlog",
    /// Jobs wait and nobody asks for them.
    NoWorker = "no_worker",
    /// Commits take long.
    CommitsSlow = "commits_slow",
    /// The disk is nearly full.
    StoreSpace = "store_space",
    /// The store's log does not start over.
    StoreLog = "store_log",
    /// The store could not be examined.
    StoreUnexamined = "store_unexamined",
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know. Nothing has to be done.
    Info,
    /// Something goes wrong now and then, or will.
    Warning,
    /// Work is lost, done twice or not done at all.
    Critical,
}

impl Severity {
    /// The name that machines go by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What a finding is based on.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A number of things.
    Count(u64),
    /// A span of time.
    Span(Millis),
    /// A point in time.
    At(Timestamp),
    /// A key, a job, a setting.
    Text(String),
    /// Several samples, each with its facts.
    Samples(Vec<Vec<(&'static str, Fact)>>),
}

impl Fact {
    /// Something that can be written down.
    pub(super) fn text(value: &(impl ToString + ?Sized)) -> Self {
        Self::Text(value.to_string())
    }
}

/// One thing that should be looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which kind.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The queue it is about; `None` if it is about the store.
    pub queue: Option<QueueName>,
    /// Another queue that it tells about, so only those who may read both are told.
    pub other: Option<QueueName>,
    /// What was found, in one sentence.
    pub summary: String,
    /// What it means.
    pub meaning: String,
    /// What to do: which setting to change, to what.
    pub remedy: String,
    /// What it is based on.
    pub evidence: Vec<(&'static str, Fact)>,
    /// When this node first noticed it.
    pub since: Timestamp,
}

impl Finding {
    /// A finding about a queue. Whoever collects it knows since when.
    pub(super) fn of(queue: &QueueName, code: Code, severity: Severity, summary: impl Into<String>) -> Self {
        Self { queue: Some(queue.clone()), ..Self::about_store(code, severity, summary) }
    }

    /// A finding about the store.
    pub(super) fn about_store(code: Code, severity: Severity, summary: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            queue: None,
            other: None,
            summary: summary.into(),
            meaning: String::new(),
            remedy: String::new(),
            evidence: Vec::new(),
            since: Timestamp::default(),
        }
    }

    /// Says what it means.
    #[must_use]
    pub(super) fn means(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }

    /// Says what to do.
    #[must_use]
    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Adds what it is based on.
    #[must_use]
    pub(super) fn fact(mut self, name: &'static str, fact: Fact) -> Self {
        self.evidence.push((name, fact));
        self
    }

    /// Adds a count that it is based on.
    #[must_use]
    pub(super) fn count(self, name: &'static str, count: impl Into<u64>) -> Self {
        self.fact(name, Fact::Count(count.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page is what people look a code up in, so neither may have what the other lacks.
    #[test]
    fn every_code_has_its_section_and_every_section_a_code() {
        let page = include_str!("../../../../docs/operations/doctor.md");
        let sections: Vec<_> =
            page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
        let codes: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(sections, codes);
    }
}
