//! Settling an entry by hand, when a person has found out what became of it.

use std::convert::Infallible;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::attempt::{Opened, open};
use crate::intent::{Found, replayed};
use crate::store::{Expired, Release, Store};
use crate::{Call, Error, Ledger, Verdict};

impl<S: Store> Ledger<S> {
    /// Writes down what a person found out about an unknown outcome: that it happened, with this result, or that it did
    /// not, so that the next delivery may try. The verdict is what a delivery would be told now; after
    /// [`Found::NotApplied`] there is none.
    ///
    /// ```
    /// use semel_ledger::{Call, Failure, Found, Ledger, Memory, Verdict};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ledger = Ledger::builder(Memory::new(), "mail").build()?;
    /// let call = Call::new("welcome-7")?;
    /// let send = |_| async { Err::<(), _>(Failure::from(std::io::Error::other("timed out"))) };
    /// assert!(ledger.at_most_once(&call).run(send).await.is_err());
    ///
    /// // The mail server's log says that it went out.
    /// ledger.resolve(&call, Found::Applied(())).await?;
    /// assert_eq!(ledger.at_most_once(&call).run(send).await?, Verdict::Replayed(()));
    /// # Ok(()) }
    /// ```
    pub async fn resolve<T>(
        &self,
        call: &Call,
        found: Found<T>,
    ) -> Result<Option<Verdict<T>>, Error<Infallible>>
    where
        T: Serialize + DeserializeOwned,
    {
        let expired = Expired::TakeOver { window: None };
        let attempt = match open(self, self.scope_of(call), call, expired).await? {
            Opened::Held(attempt) => attempt,
            Opened::Done(result) => return replayed(result.as_deref()).map(Some),
            Opened::Busy(until) => return Ok(Some(Verdict::InProgress { until })),
            Opened::Spent(since) => return Ok(Some(Verdict::OutcomeUnknown { since })),
        };
        let since = attempt.grant.since;
        match found {
            Found::Applied(result) => {
                attempt.complete(self, &result).await?;
                Ok(Some(Verdict::Replayed(result)))
            }
            Found::NotApplied => {
                attempt.release(self, Release::Forget).await;
                Ok(None)
            }
            Found::Unknown => {
                attempt.release(self, Release::Recover).await;
                Ok(Some(Verdict::OutcomeUnknown { since }))
            }
        }
    }
}
