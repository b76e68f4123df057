//! What a store of the ledger must do: the law. `suite` holds one test for each of its sentences.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::key::{Scope, hex};
use crate::time::{Moment, Until};
use crate::{Fingerprint, StoreError};

/// A place where entries live. Each is `none -> claimed -> done`, and done is final until it expires.
///
/// For every method:
/// - It MUST be atomic: concurrent calls, of this process or of others, behave as if one came after the other. A unique
///   constraint on the [`Scope`] (or a script that nothing interrupts) decides races, not a look before the act.
/// - All times MUST be of the store's clock. The worker's clock MUST NOT be read.
/// - An entry whose expiry is *at or before* now MUST be treated as if it were not there.
/// - What was answered MUST be durable, as far as the store is.
/// - If the store cannot be asked, does not answer or answers nonsense, the method MUST return an error. It MUST NOT guess.
///   After an error the act may or may not have happened.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// A word for messages and metrics: `postgres`, `redis`.
    fn name(&self) -> &'static str;

    /// Makes the tables, or brings them up to date. Calling it again, or at the same time elsewhere, MUST change nothing.
    /// A layout newer than this program knows MUST be refused.
    async fn ensure_schema(&self) -> Result<(), StoreError>;

    /// Claims an entry. In this order:
    ///
    /// 1. There is none: it MUST be made, claimed by `claim.owner` with token 1, and [`Claimed::Granted`].
    /// 2. Its fingerprint and the claim's are both there and differ: [`Claimed::Collision`].
    /// 3. It is done: [`Claimed::Done`], with its result.
    /// 4. Its fence (the highest token of a queue it was claimed with) is above `claim.fence`: [`Claimed::Stale`].
    /// 5. Its lease is not over (its end is *after* now): [`Claimed::Busy`].
    /// 6. Its lease is over, and `claim.expired` is [`Expired::Spent`], or a window that has passed since it was first
    ///    claimed (`since + window` is *at or before* now): [`Claimed::Spent`].
    /// 7. Otherwise it MUST be taken over: the new owner, the next token, a new lease, the higher fence; `since` stays. A
    ///    fingerprint that was missing is added. [`Claimed::Granted`] with `recovering`.
    ///
    /// A claim with [`Expired::Spent`] MUST give the entry an expiry, `claim.ttl` after its lease ends; any other claimed
    /// entry MUST NOT expire, for nobody knows yet what became of it.
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError>;

    /// Extends the lease to now plus `lease`, if the entry is claimed and still the holder's (owner *and* token);
    /// otherwise [`Hold::Lost`]. That the lease is over does not matter as long as nobody has taken the entry over. An
    /// expiry before the new end of the lease moves there.
    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError>;

    /// Makes the entry done, with this result (JSON), to expire `ttl` from now, if it is still the holder's; otherwise
    /// [`Hold::Lost`]. If the holder has completed it before, the answer MUST be [`Hold::Held`] and nothing MUST change:
    /// after an error the holder asks again.
    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError>;

    /// Gives the claim up, if it is still the holder's and not done; otherwise [`Hold::Lost`]. [`Release::Forget`] MUST
    /// remove the entry; [`Release::Recover`] MUST end its lease now, and keep everything else.
    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError>;

    /// For each scope: if there is no entry, it MUST be made, done without a result, to expire `ttl` from now, and the
    /// answer is `true`; otherwise nothing changes and it is `false`. Answers are in the order of the scopes; of equal
    /// ones the first gets the `true`. Each scope is atomic, all of them together need not be.
    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError>;

    /// What is known about these scopes, in their order. It MUST NOT change anything.
    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError>;

    /// Removes up to `limit` expired entries, of any consumer, and says how many. It MUST NOT hold up claims: it takes no
    /// lock for longer than one such bite. Fewer than `limit` means that nothing is left. A store that removes expired
    /// entries by itself, or a whole day of them at once, may answer otherwise.
    async fn prune(&self, limit: u32) -> Result<u32, StoreError>;
}

/// Who claims, in random digits: 128 bits, new for every claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(String);

impl Owner {
    /// One that nobody else has.
    pub fn random() -> Self {
        Self(hex(&rand::random::<[u8; 16]>()))
    }

    /// As a store keeps it.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A wish to hold an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which entry.
    pub scope: Scope,
    /// By whom.
    pub owner: Owner,
    /// The queue's token of this delivery, if it has one.
    pub fence: Option<u64>,
    /// Of the input, if it is to be compared.
    pub fingerprint: Option<Fingerprint>,
    /// For how long, unless it is renewed.
    pub lease: Duration,
    /// What an earlier claim means that was never completed.
    pub expired: Expired,
    /// How long an entry that is [`Expired::Spent`] is kept.
    pub ttl: Duration,
}

/// What a claim whose lease is over means to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// It may be taken over, within this time of the first claim.
    TakeOver {
        /// How long the service downstream remembers the key. `None`: for ever, or somebody asks it.
        window: Option<Duration>,
    },
    /// Never again (at most once).
    Spent,
}

/// The answer to a [`Claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is the claim's.
    Granted(Grant),
    /// It is done.
    Done(Done),
    /// Somebody else holds it.
    Busy {
        /// When that lease ends.
        until: Until,
    },
    /// It was claimed, never completed, and may not be claimed again.
    Spent {
        /// The first claim.
        since: Moment,
    },
    /// It belongs to another input.
    Collision {
        /// The one that came first.
        recorded: Fingerprint,
    },
    /// A delivery with a higher token of the queue has claimed it.
    Stale {
        /// That token.
        fence: u64,
    },
}

/// A claim that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// One more than the claim before had; 1 for the first. It grows for as long as the entry lives.
    pub token: u64,
    /// The first claim of this entry that was not completed or forgotten.
    pub since: Moment,
    /// When the lease ends.
    pub until: Until,
    /// There was a claim before, and nobody knows how far it came.
    pub recovering: bool,
}

/// A completed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The first run's result, as JSON. None after [`Store::mark`].
    pub result: Option<String>,
    /// When it was completed.
    pub at: Moment,
    /// When the ledger forgets it.
    pub expires: Until,
}

/// Whoever was granted an entry: only this owner *with this token* may renew, complete or release it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Which entry.
    pub scope: Scope,
    /// Of the claim.
    pub owner: Owner,
    /// Of the grant.
    pub token: u64,
}

/// Whether an entry was still its holder's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Hold<T> {
    /// It was, and this is the answer.
    Held(T),
    /// Somebody has taken it over, or it is gone.
    Lost,
}

/// How a claim is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Certainly nothing happened: as if it had never been claimed.
    Forget,
    /// Something may have happened: the next claim recovers at once, or finds it spent.
    Recover,
}

/// An entry as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Of the last claim; 0 after [`Store::mark`].
    pub token: u64,
    /// The highest token of a queue.
    pub fence: Option<u64>,
    /// Of the input.
    pub fingerprint: Option<Fingerprint>,
    /// The first claim.
    pub since: Moment,
    /// How far it came.
    pub state: State,
}

/// How far an entry came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Somebody holds it, or held it.
    Claimed {
        /// When the lease ends; nothing remains if it is over.
        until: Until,
    },
    /// It happened.
    Done(Done),
}

#[async_trait]
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    async fn ensure_schema(&self) -> Result<(), StoreError> {
        (**self).ensure_schema().await
    }
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        (**self).claim(claim).await
    }
    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError> {
        (**self).renew(holder, lease).await
    }
    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError> {
        (**self).complete(holder, result, ttl).await
    }
    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError> {
        (**self).release(holder, release).await
    }
    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        (**self).mark(scopes, ttl).await
    }
    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
        (**self).lookup(scopes).await
    }
    async fn prune(&self, limit: u32) -> Result<u32, StoreError> {
        (**self).prune(limit).await
    }
}
