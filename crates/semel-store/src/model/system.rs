//! The system under test: it gets the same calls as the reference, and must give the same answers.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use proptest::test_runner::TestCaseError;
use semel_core::ids::JobId;
use semel_core::lease::{Delivery, LeaseRequest};

use super::reference::{Call, Reference};
use super::tokens::Tokens;
use crate::command::{Answer, Command, Reply};
use crate::conformance::Harness;
use crate::error::StoreError;
use crate::store::Store;

/// Whether the system did as the reference did, or what it did else.
pub(super) type Check<T = ()> = Result<T, TestCaseError>;

/// Most calls that one pass of pruning may take. A store that always says "more" must not hang the test.
const PRUNE_CALLS_MAX: u32 = 10_000;

/// A backend, and what the test knows of it.
pub(super) struct System<H> {
    harness: H,
    pub(super) store: Arc<dyn Store>,
    pub(super) tokens: Tokens,
}

impl<H: Harness> System<H> {
    pub(super) fn new(harness: H) -> Self {
        let store = harness.store();
        Self { harness, store, tokens: Tokens::default() }
    }

    /// Makes the reference's last call on the system, and compares the answer and what it touched.
    pub(super) async fn follow(&mut self, reference: &Reference) -> Check {
        match &reference.call {
            Call::Apply(batch, answers) => self.apply(reference, batch, answers).await?,
            Call::Lease(request, deliveries) => self.lease(request, deliveries).await?,
            Call::Advance(span) => self.harness.advance(*span),
            Call::Prune { slice, dropped, stripped } => self.prune(*slice, (*dropped, *stripped)).await?,
            Call::Crash => self.crash().await,
            Call::List(query) => self.list(reference, query).await?,
            Call::ReadAll => self.read_all(reference).await?,
        }
        for id in touched(&reference.call) {
            self.read_job(reference, id).await?;
        }
        self.read_queues(reference).await
    }

    /// At the end of a history everything is read twice: as it is, and as it is after a crash.
    pub(super) async fn finish(mut self, reference: Reference) -> Check {
        self.read_all(&reference).await?;
        let reference = reference.next(&super::step::Step::Crash);
        self.follow(&reference).await?;
        self.read_all(&reference).await
    }

    async fn apply(&self, reference: &Reference, batch: &[Command], answers: &[Answer]) -> Check {
        let batch = batch.iter().map(|command| self.tokens.translate(command)).collect();
        let mut got = self.store.apply(batch).await.map_err(broken("apply"))?;
        if reference.crashed {
            answers.iter().zip(&mut got).for_each(forgive_lost_duplicates);
        }
        same("answers", &answers, &got.as_slice())
    }

    async fn lease(&mut self, request: &LeaseRequest, expected: &[Delivery]) -> Check {
        let mut got = self.store.lease(request.clone()).await.map_err(broken("lease"))?;
        for (ours, theirs) in expected.iter().zip(&mut got) {
            let rises = self.tokens.match_up(theirs.id, ours.token, theirs.token);
            same("whether the token is greater than every one before", &true, &rises)?;
            theirs.token = ours.token;
        }
        same("deliveries", &expected, &got.as_slice())
    }

    async fn prune(&self, slice: u32, expected: (u32, u32)) -> Check {
        let (mut all_dropped, mut all_stripped) = (0, 0);
        for _ in 0..PRUNE_CALLS_MAX {
            let answers =
                self.store.apply(vec![Command::Prune { limit: slice }]).await.map_err(broken("prune"))?;
            let [Ok(Reply::Pruned { dropped, stripped, more })] = answers.as_slice() else {
                return Err(TestCaseError::fail(format!("a prune was answered with {answers:?}")));
            };
            all_dropped += dropped;
            all_stripped += stripped;
            if !more {
                return same("jobs dropped and stripped", &expected, &(all_dropped, all_stripped));
            }
        }
        Err(TestCaseError::fail("a pass of pruning does not end"))
    }

    async fn crash(&mut self) {
        self.harness.crash().await;
        self.store = self.harness.store();
    }
}

/// A crash may take counts of duplicates along, so the count may be lower than ours; never higher, and never zero for
/// a publish that is itself a duplicate.
fn forgive_lost_duplicates((ours, theirs): (&Answer, &mut Answer)) {
    if let (Ok(Reply::Published(ours)), Ok(Reply::Published(theirs))) = (ours, theirs)
        && (u32::from(ours.deduplicated)..ours.duplicates).contains(&theirs.duplicates)
    {
        theirs.duplicates = ours.duplicates;
    }
}

/// The jobs that a call was about.
fn touched(call: &Call) -> BTreeSet<JobId> {
    match call {
        Call::Apply(batch, answers) => batch
            .iter()
            .filter_map(asked_about)
            .chain(answers.iter().flatten().flat_map(told_about))
            .collect(),
        Call::Lease(_, deliveries) => deliveries.iter().map(|delivery| delivery.id).collect(),
        _ => BTreeSet::new(),
    }
}

fn asked_about(command: &Command) -> Option<JobId> {
    match command {
        Command::Settle(settle) => Some(settle.id()),
        Command::Extend(extend) => Some(extend.id),
        Command::Cancel(id) | Command::Bury { id, .. } | Command::Replay(id) | Command::Purge(id) => {
            Some(*id)
        }
        _ => None,
    }
}

fn told_about(reply: &Reply) -> Vec<JobId> {
    match reply {
        Reply::Published(published) => vec![published.id],
        Reply::KeyReleased(id) => vec![*id],
        Reply::Rescued { jobs, .. } => jobs.iter().map(|job| job.id).collect(),
        _ => Vec::new(),
    }
}

/// Compares what the reference says with what the system says.
pub(super) fn same<T: PartialEq + Debug>(what: &str, expected: &T, got: &T) -> Check {
    if expected == got {
        return Ok(());
    }
    Err(TestCaseError::fail(format!("{what} differ\n  reference: {expected:?}\n  system:    {got:?}")))
}

/// A call that the system failed, where the reference had an answer.
pub(super) fn broken(call: &'static str) -> impl Fn(StoreError) -> TestCaseError {
    move |error| TestCaseError::fail(format!("{call} failed: {error}"))
}
