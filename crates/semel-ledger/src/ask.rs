//! Effects that can be looked at before they are made: ask, then act, under a lock.

use crate::intent::{Asking, IntentRun};
use crate::store::Store;
use crate::{Call, Ledger};

impl<S: Store> Ledger<S> {
    /// For an effect whose presence can be seen: a subscription that exists, a bucket, a row in a foreign system.
    ///
    /// The claim is the lock, `ask` looks whether the effect is there already
    /// ([`Found::Applied`](crate::Found::Applied)), and [`run`](IntentRun::run) makes it if it is not. Asking without the
    /// lock is a race: two workers ask, both see nothing, both act. Where the service has conditional writes (`If-None-Match`,
    /// `INSERT ... ON CONFLICT`), use them too; they decide what a lease can only make unlikely.
    ///
    /// ```
    /// use semel_ledger::{Call, Failure, Found, Ledger, Memory, Verdict};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ledger = Ledger::builder(Memory::new(), "provisioning").build()?;
    /// let call = Call::new("bucket-of-tenant-7")?;
    /// let verdict = ledger
    ///     .ask(&call, |_| async { Ok::<_, std::io::Error>(Found::Applied("s3://tenant-7".to_owned())) })
    ///     .run(|_| async { Err(Failure::not_applied(std::io::Error::other("it is not asked to"))) })
    ///     .await?;
    /// assert_eq!(verdict, Verdict::Replayed("s3://tenant-7".to_owned()));
    /// # Ok(()) }
    /// ```
    pub fn ask<'a, G>(&'a self, call: &'a Call, ask: G) -> IntentRun<'a, S, Asking<G>> {
        self.intent(call).reconcile(ask).always()
    }
}
