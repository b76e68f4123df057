//! What series are told apart by: the queue, and one word from a fixed list.

use std::fmt;
use std::hash::Hash;

use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};
use semel_core::lifecycle::State;
use semel_core::name::QueueName;

/// A label whose values are known beforehand, so that the number of series is bounded.
pub(super) trait Word: Copy + Eq + Hash {
    /// The label's name.
    const LABEL: &'static str;

    /// The value as it is shown.
    fn text(self) -> &'static str;
}

/// The labels of a series: a queue and a word. Without a queue, which to Prometheus is the same as an empty one, are
/// publishes to queues that do not exist, and settles that were fenced off.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Labels<W> {
    pub(super) queue: Option<QueueName>,
    pub(super) word: W,
}

impl<W> Labels<W> {
    pub(super) fn new(queue: Option<&QueueName>, word: W) -> Self {
        Self { queue: queue.cloned(), word }
    }
}

impl<W: Word> EncodeLabelSet for Labels<W> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        OnlyQueue(self.queue.clone()).encode(encoder)?;
        (W::LABEL, self.word.text()).encode(encoder.encode_label())
    }
}

/// The queue as the only label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OnlyQueue(pub(super) Option<QueueName>);

impl EncodeLabelSet for OnlyQueue {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("queue", self.0.as_ref().map_or("", QueueName::as_str)).encode(encoder.encode_label())
    }
}

/// Defines a [`Word`] with all its values.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident is $label:literal: $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(super) enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            pub(super) const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl Word for $name {
            const LABEL: &'static str = $label;

            fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

words! {
    /// What came of a publish.
    PublishOutcome is "outcome":
    Created = "created",
    /// Answered with the first job; the payload is the same.
    Deduplicated = "deduplicated",
    /// The key stands for another payload, whether or not the queue lets that pass.
    Collision = "collision",
    Rejected = "rejected",
}

words! {
    /// A delivery that began, or what came of one.
    DeliveryOutcome is "outcome":
    Leased = "leased",
    Done = "done",
    /// The worker has it and will settle later; the delivery goes on.
    Received = "received",
    Failed = "failed",
    Deferred = "deferred",
    Rejected = "rejected",
    Expired = "expired",
    /// A settle that came too late and was fenced off.
    Stale = "stale",
}

words! {
    /// What the worker said of the effect of a job that is done.
    EffectOutcome is "outcome":
    Applied = "applied",
    Replayed = "replayed",
    None = "none",
    Unreported = "unreported",
}

words! {
    /// Where a duplicate was stopped.
    Door is "door":
    Publish = "publish",
    Effect = "effect",
}

impl Word for State {
    const LABEL: &'static str = "status";

    fn text(self) -> &'static str {
        self.name()
    }
}
