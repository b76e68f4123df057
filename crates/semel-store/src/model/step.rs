//! What a history is made of. A step names jobs and deliveries by how far back they lie, not by id, so that a history from
//! which proptest took a step out still makes sense, and can be shortened further.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use semel_core::lifecycle::State;
use semel_core::outcome::{DeferScope, Effect, Outcome, Receipt};
use semel_core::payload::Payload;
use semel_core::settle::Report;
use semel_core::time::Millis;

use super::queues::{QUEUES, SHAPES, VALID_SHAPES};

/// Few keys, so that duplicates and collisions are the rule and not the exception.
pub(super) const KEYS: [&str; 4] = ["k0", "k1", "k2", "order 9482"];
/// Few groups, so that they are contended.
pub(super) const GROUPS: [&str; 2] = ["g0", "g1"];
/// Payloads: one, the same in other bytes, one that differs where a queue may ignore it, another, and a large one.
pub(super) const PAYLOADS: [&str; 5] = [
    r#"{"n":1}"#,
    r#"{ "n": 1 }"#,
    r#"{"n":1,"at":7}"#,
    r#"{"n":2}"#,
    r#"{"n":1,"filler":"0123456789012345678901234567890123456789012345678901234567890123456789"}"#,
];
/// Spans of time in milliseconds: within a lease, past it, past windows and retentions, past everything.
const SPANS: [u64; 8] = [1, 1_000, 20_000, 35_000, 61_000, 130_000, 3_600_000, 144_000_000];
/// Names of schedules, API keys and replays.
pub(super) const RECORDS: [&str; 2] = ["r0", "r1"];

/// One step of a history.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Commands, in one batch.
    Apply(Vec<Op>),
    /// Lease from a queue.
    Lease { queue: usize, max: u32, secs: Option<u64> },
    /// Time passes.
    Advance(Advance),
    /// Prune in slices until a pass is through.
    Prune { slice: u32 },
    /// The store is killed and opened again.
    Crash,
    /// Walk along a listing.
    List(Filter),
    /// Read everything.
    ReadAll,
}

/// How time passes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Advance {
    /// By this span.
    By(Millis),
    /// To the time the queue next has something, or a millisecond before.
    ToDue { queue: usize, early: bool },
    /// To the time the next lease runs out, or a millisecond before.
    ToExpiry { early: bool },
    /// To the time a key stops holding, or a millisecond before.
    ToKeyEnd { queue: usize, key: usize, early: bool },
    /// To the time the retention of the job that finished last is over, or a millisecond before.
    ToRetentionEnd { early: bool },
}

/// One command, before it is known which job it is about.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Publish(Post),
    Settle { pick: Pick, token: Whose, outcome: Outcome, report: Report },
    Extend { pick: Pick, token: Whose, secs: u64 },
    Cancel(Pick),
    Bury(Pick),
    Replay(Pick),
    Purge(Pick),
    ReleaseKey { queue: usize, key: usize },
    PutQueue { queue: usize, shape: usize },
    DeleteQueue { queue: usize },
    Pause { queue: usize, paused: bool },
    Rescue { limit: u32 },
    Record(RecordOp),
}

/// One command about the small records.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordOp {
    PutSchedule { name: usize, valid: bool },
    DeleteSchedule { name: usize },
    PutApiKey { name: usize, valid: bool },
    DeleteApiKey { name: usize },
    PutSecrets { queue: usize, valid: bool },
    AdvanceSchedule { name: usize, in_time: bool },
    TouchApiKey { name: usize },
    PutReplay { name: usize, valid: bool },
    DeleteReplay { name: usize },
}

/// Which job or delivery a command is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pick {
    /// How far back it lies.
    pub(super) back: usize,
    /// Among those the command makes sense for (a dead letter for a replay), or among all.
    pub(super) fitting: bool,
}

/// Whose token a settle comes with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose {
    /// That of the delivery; stale if the delivery has ended.
    Own,
    /// None.
    Nobodys,
    /// That of another delivery.
    Anothers,
    /// One that was never handed out.
    Forged,
}

/// A publish.
#[derive(Debug, Clone)]
pub(super) struct Post {
    pub(super) queue: usize,
    pub(super) key: Option<usize>,
    pub(super) payload: usize,
    pub(super) when: When,
    pub(super) priority: i64,
    pub(super) group: Option<usize>,
    pub(super) max_attempts: Option<u32>,
    pub(super) window: Option<Millis>,
    pub(super) tagged: bool,
    pub(super) publisher: bool,
}

/// When a job is to run.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Now,
    After(Millis),
    At(Millis),
    LongAgo,
    TooFar,
}

/// Which jobs to list.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    pub(super) queue: Option<usize>,
    pub(super) state: Option<State>,
    pub(super) key: Option<usize>,
    pub(super) group: Option<usize>,
    pub(super) tagged: bool,
    /// Published within this time.
    pub(super) since: Option<Millis>,
    pub(super) page: u32,
}

/// What a history starts with. Histories differ in it, because one that gives equal time to everything gets deep into
/// nothing: most of each happens in one queue, whose shape is any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// The queue in which most happens.
    pub(super) favourite: usize,
    /// The shape of each queue.
    pub(super) shapes: [usize; QUEUES.len()],
}

/// Every start.
pub(super) fn start() -> impl Strategy<Value = Start> {
    let shape = || 0..VALID_SHAPES;
    (0..QUEUES.len(), [shape(), shape(), shape()]).prop_map(|(favourite, shapes)| Start { favourite, shapes })
}

/// What is going on in a store, as far as it decides which steps are worth while.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    /// The queue in which most happens.
    pub(super) favourite: usize,
    /// Jobs are pending.
    pub(super) waiting: bool,
    /// Jobs are with workers.
    pub(super) out: bool,
    /// Some of them for too long.
    pub(super) expired: bool,
    /// There are dead letters.
    pub(super) dead: bool,
}

/// Every kind of step, at any time; those that can do something most often.
pub(super) fn step(scene: Scene) -> BoxedStrategy<Step> {
    let lease = if scene.waiting { 14 } else { 2 };
    let prune = if scene.dead { 5 } else { 2 };
    prop_oneof![
        // First what is simplest, because proptest shrinks towards it.
        16 => op(scene).prop_map(|op| Step::Apply(vec![op])),
        4 => vec(op(scene), 2..6).prop_map(Step::Apply),
        lease => (queue(scene), 1..5_u32, option::weighted(0.3, 1..60_u64))
            .prop_map(|(queue, max, secs)| Step::Lease { queue, max, secs }),
        6 => advance(scene).prop_map(Step::Advance),
        prune => (1..4_u32).prop_map(|slice| Step::Prune { slice }),
        1 => Just(Step::Crash),
        1 => filter(scene).prop_map(Step::List),
        1 => Just(Step::ReadAll),
    ]
    .boxed()
}

fn queue(scene: Scene) -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(scene.favourite), 1 => 0..QUEUES.len()]
}

/// Mostly the same one.
fn key() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0), 2 => 0..KEYS.len()]
}

/// Mostly the same one.
fn group() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0), 1 => 0..GROUPS.len()]
}

/// Mostly a fresh one that fits.
fn pick() -> impl Strategy<Value = Pick> {
    let back = prop_oneof![3 => 0..3_usize, 1 => 0..12_usize];
    (back, prop::bool::weighted(0.7)).prop_map(|(back, fitting)| Pick { back, fitting })
}

fn advance(scene: Scene) -> impl Strategy<Value = Advance> {
    let to_expiry = if scene.out { 4 } else { 1 };
    let to_retention_end = if scene.dead { 4 } else { 1 };
    prop_oneof![
        4 => select(&SPANS[..]).prop_map(|ms| Advance::By(Millis::from_millis(ms))),
        3 => (queue(scene), any::<bool>()).prop_map(|(queue, early)| Advance::ToDue { queue, early }),
        to_expiry => any::<bool>().prop_map(|early| Advance::ToExpiry { early }),
        to_retention_end => any::<bool>().prop_map(|early| Advance::ToRetentionEnd { early }),
        1 => (queue(scene), key(), any::<bool>())
            .prop_map(|(queue, key, early)| Advance::ToKeyEnd { queue, key, early }),
    ]
}

fn op(scene: Scene) -> BoxedStrategy<Op> {
    let (publishes, settles) = if scene.out { (10, 20) } else { (16, 3) };
    let rescues = if scene.expired { 12 } else { 1 };
    let replays = if scene.dead { 6 } else { 1 };
    let settle = (pick(), whose(), outcome(), report())
        .prop_map(|(pick, token, outcome, report)| Op::Settle { pick, token, outcome, report });
    prop_oneof![
        publishes => post(scene).prop_map(Op::Publish),
        settles => settle,
        2 => (pick(), whose(), 1..90_u64).prop_map(|(pick, token, secs)| Op::Extend { pick, token, secs }),
        2 => pick().prop_map(Op::Cancel),
        2 => pick().prop_map(Op::Bury),
        replays => pick().prop_map(Op::Replay),
        replays / 2 + 1 => pick().prop_map(Op::Purge),
        rescues => (1..4_u32).prop_map(|limit| Op::Rescue { limit }),
        1 => (queue(scene), key()).prop_map(|(queue, key)| Op::ReleaseKey { queue, key }),
        2 => (queue(scene), 0..SHAPES).prop_map(|(queue, shape)| Op::PutQueue { queue, shape }),
        1 => queue(scene).prop_map(|queue| Op::DeleteQueue { queue }),
        1 => (queue(scene), prop::bool::weighted(0.4)).prop_map(|(queue, paused)| Op::Pause { queue, paused }),
        3 => record_op(scene).prop_map(Op::Record),
    ]
    .boxed()
}

fn record_op(scene: Scene) -> impl Strategy<Value = RecordOp> {
    let place = (0..RECORDS.len(), queue(scene));
    (place, 0..10_u8, prop::bool::weighted(0.8)).prop_map(|((name, queue), kind, valid)| match kind {
        0 => RecordOp::PutSchedule { name, valid },
        1 => RecordOp::DeleteSchedule { name },
        2 => RecordOp::PutApiKey { name, valid },
        3 => RecordOp::DeleteApiKey { name },
        4 => RecordOp::PutSecrets { queue, valid },
        5 => RecordOp::AdvanceSchedule { name, in_time: true },
        6 => RecordOp::AdvanceSchedule { name, in_time: false },
        7 => RecordOp::TouchApiKey { name },
        8 => RecordOp::PutReplay { name, valid },
        _ => RecordOp::DeleteReplay { name },
    })
}

fn whose() -> impl Strategy<Value = Whose> {
    prop_oneof![6 => Just(Whose::Own), 2 => Just(Whose::Nobodys), 1 => Just(Whose::Anothers), 1 => Just(Whose::Forged)]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let receipt = Receipt { outcome: Effect::Applied, key: Some("charge-1".into()) };
    let result = Payload::from_parsed(r#"{"ok":true}"#);
    let wait = select(&[0, 1_000, 30_000][..]).prop_map(Millis::from_millis);
    let scope = select(&[DeferScope::Queue, DeferScope::Job][..]);
    let backpressure = (option::of(wait), option::of(scope)).prop_map(|(retry_after, scope)| {
        Outcome::Backpressure { retry_after, scope, reason: scope.map(|_| "busy".into()) }
    });
    prop_oneof![
        5 => Just(Outcome::Done { result: None, effect: None }),
        1 => Just(Outcome::Done { result: Some(result), effect: Some(receipt) }),
        5 => Just(Outcome::Failed { error: "boom".into() }),
        4 => Just(Outcome::Rejected { error: "never".into() }),
        3 => backpressure,
        2 => Just(Outcome::Received),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    (any::<bool>(), option::of(Just(503)), option::of(Just(Millis::from_millis(12)))).prop_map(
        |(from_worker, status_code, duration)| Report { from_worker, status_code, duration, effect: None },
    )
}

fn post(scene: Scene) -> impl Strategy<Value = Post> {
    let place = (queue(scene), option::weighted(0.7, key()), option::weighted(0.5, group()));
    let order = (when(), prop_oneof![4 => Just(0), 1 => Just(5), 1 => Just(-5)]);
    let window = select(&[0, 15_000][..]).prop_map(Millis::from_millis);
    let overrides = (option::weighted(0.2, 1..3_u32), option::weighted(0.2, window));
    let rest = (prop_oneof![3 => Just(0), 2 => 0..PAYLOADS.len()], any::<bool>(), any::<bool>());
    (place, order, overrides, rest).prop_map(|(place, order, overrides, rest)| Post {
        queue: place.0,
        key: place.1,
        group: place.2,
        when: order.0,
        priority: order.1,
        max_attempts: overrides.0,
        window: overrides.1,
        payload: rest.0,
        tagged: rest.1,
        publisher: rest.2,
    })
}

fn when() -> impl Strategy<Value = When> {
    let span = select(&[0, 1, 1_000, 30_000][..]).prop_map(Millis::from_millis);
    prop_oneof![
        8 => Just(When::Now),
        2 => span.clone().prop_map(When::After),
        1 => span.prop_map(When::At),
        1 => Just(When::LongAgo),
        1 => Just(When::TooFar),
    ]
}

fn filter(scene: Scene) -> impl Strategy<Value = Filter> {
    let place = (option::of(queue(scene)), option::weighted(0.3, key()), option::weighted(0.3, group()));
    let state = option::of(select(&State::ALL[..]));
    let since = option::weighted(0.3, (0..60_000_u64).prop_map(Millis::from_millis));
    (place, state, prop::bool::weighted(0.2), since, 1..5_u32).prop_map(
        |(place, state, tagged, since, page)| Filter {
            queue: place.0,
            key: place.1,
            group: place.2,
            state,
            tagged,
            since,
            page,
        },
    )
}
