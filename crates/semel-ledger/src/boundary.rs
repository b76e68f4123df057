//! The moments of a delivery at which a crash leaves something else behind. The testkit stops deliveries there.

/// Between these a worker can die; the ledger must be right after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// Nothing has happened.
    BeforeClaim,
    /// The entry is claimed (or the transaction begun), the effect has not started.
    AfterClaim,
    /// The effect has happened, and is not recorded.
    AfterEffect,
    /// It is recorded.
    AfterRecord,
    /// The handler is done, and the queue does not know.
    BeforeAck,
}

impl Boundary {
    /// All of them, in the order of a delivery.
    pub const ALL: [Self; 5] =
        [Self::BeforeClaim, Self::AfterClaim, Self::AfterEffect, Self::AfterRecord, Self::BeforeAck];

    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeClaim => "before the claim",
            Self::AfterClaim => "after the claim",
            Self::AfterEffect => "after the effect",
            Self::AfterRecord => "after the record",
            Self::BeforeAck => "before the ack",
        }
    }
}

#[cfg(not(feature = "testkit"))]
pub(crate) async fn reach(_: Boundary) {}

#[cfg(feature = "testkit")]
pub(crate) use crate::testkit::reach;
