//! The conformance suite: every sentence of the [`Store`] law as a small story, for every backend alike.
//!
//! A backend subscribes with one line in one of its integration tests:
//!
//! ```ignore
//! semel_store::conformance!(MyHarness::new);
//! ```
//!
//! which makes one `#[test]` per case, named `subject::case`, so that a failure names the sentence that was broken.
//! Nothing here sleeps: time is the harness's, and it moves only when a case says so.
//!
//! Every case ends the same way ([`run`]): the counters must be those of the listed jobs, then the store is killed, and
//! what it shows afterwards must be what it showed before, but for its leases.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use semel_core::time::Millis;

use crate::store::Store;

mod batches;
mod bury;
mod cases;
mod collision;
mod crash_reopen;
mod dead_letters_and_replay;
mod defer_and_hold;
mod fencing;
mod gate;
mod groups_and_order;
mod keys;
mod kit;
mod lease;
mod list_and_cursors;
mod make;
mod priority;
mod prune;
mod publish;
mod purge;
mod records;
mod replays;
mod retry;
mod schedule;
mod secrets;
mod settle;
mod snapshot;
mod stats;
mod window_and_expiry;

pub use kit::Kit;

/// What the suite needs of a backend: a fresh, empty store, its clock in the suite's hands, and a way to kill it.
#[async_trait]
pub trait Harness: Send {
    /// The store as it is open now. After [`Harness::crash`] this is another one.
    fn store(&self) -> Arc<dyn Store>;

    /// Moves the store's clock on. The clock MUST NOT move by itself: cases ask for exact times.
    fn advance(&self, span: Millis);

    /// Kills the process and opens the store again: leases are gone, everything that was answered is there.
    async fn crash(&mut self);
}

/// A case: it tells its story with the kit and panics where the store departs from it.
pub type Case = for<'a> fn(&'a mut Kit) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Subscribes a backend to the suite: `harness` is a `fn() -> impl Harness` (or a closure) that opens a fresh, empty store.
///
/// It is used once, at the root of an integration test; every case becomes a test there. The store is opened before the
/// case's runtime starts, so opening may block.
#[macro_export]
macro_rules! conformance {
    ($harness:expr) => {
        fn conformance_case(name: &str) {
            $crate::conformance::run(name, ($harness)());
        }

        $crate::__conformance_cases! { $crate::__conformance_tests }
    };
}

/// Makes a test of every case.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($($subject:ident { $($case:ident)* })*) => {
        $(
            mod $subject {
                $(
                    #[test]
                    fn $case() {
                        super::conformance_case(concat!(stringify!($subject), "::", stringify!($case)));
                    }
                )*
            }
        )*
    };
}

macro_rules! table {
    ($($subject:ident { $($case:ident)* })*) => {
        vec![$($((
            concat!(stringify!($subject), "::", stringify!($case)),
            (|kit| Box::pin($subject::$case(kit))) as Case,
        )),*),*]
    };
}

/// Every case with its name, `subject::case`, in the order of the list.
pub fn all_cases() -> Vec<(&'static str, Case)> {
    crate::__conformance_cases! { table }
}

/// Runs one case on a fresh store and panics where it fails. The case is followed by the audit every case ends with.
pub fn run(name: &str, harness: impl Harness + 'static) {
    let (_, case) = all_cases()
        .into_iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("there is no case {name}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let mut kit = Kit::new(Box::new(harness));
        case(&mut kit).await;
        snapshot::audit(&mut kit).await;
    });
}

/// Runs one case on a fresh store and returns what went wrong, for those who expect that something does.
pub fn run_case(name: &str, harness: impl Harness + 'static) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| run(name, harness))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "a panic".into())
    })
}
