//! A bounded queue that gathers what comes in while a commit is on its way.
//!
//! There is no timer: whoever takes a batch takes what is there, and waits only when nothing is. An idle store answers
//! at once; a busy one finds the next batch already gathered when the last commit is through.
//!
//! An item may also be *patient*: it comes along with the next batch that others cause, and causes none itself until
//! somebody says that it is time ([`Batcher::hurry`]).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::iter;
use std::mem;
use std::task::{Context, Poll, Waker};

use self::sync::{Mutex, MutexGuard};

/// The one lock, so that shuttle can explore every order in which it is taken.
mod sync {
    #[cfg(feature = "shuttle")]
    pub(super) use shuttle::sync::{Mutex, MutexGuard};
    #[cfg(not(feature = "shuttle"))]
    pub(super) use std::sync::{Mutex, MutexGuard};
}

/// Most takers on the list. Takers that were dropped stay on it until the next push, and a taker that polls twice is not
/// always recognised ([`Waker::will_wake`] may say no), so without a limit an idle queue could grow. Past it all are woken
/// and come back if they still wait, which costs a poll and loses nothing.
const TAKERS_MAX: usize = 16;

/// Most items that wait patiently. With more there is a batch worth taking.
const PATIENT_MAX: usize = 32;

/// What was not taken in, handed back.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejected<T> {
    /// There is no room now.
    Full(T),
    /// Nothing is taken in any more.
    Closed(T),
}

/// A bounded queue with any number of pushers, who never wait, and takers, who wait for something to take.
#[derive(Debug)]
pub struct Batcher<T> {
    capacity: usize,
    state: Mutex<State<T>>,
    #[cfg(feature = "shuttle")]
    flaw: Option<Flaw>,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    /// Whether something that waits is not patient.
    urgent: bool,
    closed: bool,
    /// Every taker that found nothing. A push wakes them all: a wake-up given to one alone would be lost with that
    /// taker if it was dropped before it ran, and there are never more than a handful.
    takers: Vec<Waker>,
    /// Who is to be woken when so many wait.
    gatherer: Option<(Waker, usize)>,
}

impl<T> Batcher<T> {
    /// An open queue with room for `capacity` items, at least one.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                urgent: false,
                closed: false,
                takers: Vec::new(),
                gatherer: None,
            }),
            #[cfg(feature = "shuttle")]
            flaw: None,
        }
    }

    /// Takes in an item, or hands it back at once.
    pub fn push(&self, item: T) -> Result<(), Rejected<T>> {
        self.take_in(iter::once(item), true).map_err(only)
    }

    /// Takes in an item that waits for the next batch others cause, or for [`Batcher::hurry`].
    pub fn push_patient(&self, item: T) -> Result<(), Rejected<T>> {
        self.take_in(iter::once(item), false).map_err(only)
    }

    /// Takes in as many items as there is room for, side by side, and hands back the rest.
    pub fn push_all(&self, items: Vec<T>) -> Result<(), Rejected<Vec<T>>> {
        self.take_in(items.into_iter(), true)
    }

    /// Lets those who wait patiently wait no longer.
    pub fn hurry(&self) {
        let mut state = self.lock();
        state.urgent = !state.waiting.is_empty();
        if state.urgent {
            wake(state);
        }
    }

    fn take_in(&self, mut items: impl Iterator<Item = T>, urgent: bool) -> Result<(), Rejected<Vec<T>>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Rejected::Closed(items.collect()));
        }
        let room = self.capacity.saturating_sub(state.waiting.len());
        #[cfg(feature = "shuttle")]
        if self.flaw == Some(Flaw::LatePush) {
            drop(state);
            state = self.lock();
        }
        state.waiting.extend(items.by_ref().take(room));
        state.urgent |= urgent || state.waiting.len() >= PATIENT_MAX.min(self.capacity);
        if state.urgent {
            wake(state);
        }
        let rest: Vec<T> = items.collect();
        if rest.is_empty() { Ok(()) } else { Err(Rejected::Full(rest)) }
    }

    /// Waits until something is there that is not patient and takes up to `max` items, the oldest first. `None` when the
    /// queue is closed and nothing is left. Dropping the future takes nothing.
    pub async fn next_batch(&self, max: usize) -> Option<Vec<T>> {
        poll_fn(|cx| self.poll_batch(cx, max)).await
    }

    /// The same for a hand-written future.
    pub fn poll_batch(&self, cx: &Context<'_>, max: usize) -> Poll<Option<Vec<T>>> {
        self.poll_batch_cut(cx, max, |_, count| count)
    }

    /// The same, and where more wait than are taken, `cut` says how many of them that is to be, at least one and no more than
    /// it is told.
    pub fn poll_batch_cut(
        &self,
        cx: &Context<'_>,
        max: usize,
        cut: impl FnOnce(&VecDeque<T>, usize) -> usize,
    ) -> Poll<Option<Vec<T>>> {
        let mut state = self.lock();
        if state.urgent || (state.closed && !state.waiting.is_empty()) {
            let most = state.waiting.len().min(max.max(1));
            let count =
                if most < state.waiting.len() { cut(&state.waiting, most).clamp(1, most) } else { most };
            // What is left was kept waiting by the size of a batch alone.
            state.urgent = count < state.waiting.len();
            return Poll::Ready(Some(state.waiting.drain(..count).collect()));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        #[cfg(feature = "shuttle")]
        if self.flaw == Some(Flaw::LateWaker) {
            drop(state);
            state = self.lock();
        }
        list(state, cx.waker());
        Poll::Pending
    }

    /// Whether `count` items wait, or nothing more comes in. If not, the one who asked is woken when it is so: the last one who
    /// asked, should there be several.
    pub fn poll_gathered(&self, cx: &Context<'_>, count: usize) -> Poll<()> {
        let mut state = self.lock();
        if state.waiting.len() >= count || state.closed {
            return Poll::Ready(());
        }
        state.gatherer = Some((cx.waker().clone(), count));
        Poll::Pending
    }

    /// Takes nothing more in. What is already there can still be taken.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        wake(state);
    }

    /// Closes the queue and takes all that is left, in one step, so that no push can fall in between.
    pub fn abandon(&self) -> Vec<T> {
        let mut state = self.lock();
        state.closed = true;
        state.urgent = false;
        let left = mem::take(&mut state.waiting).into();
        wake(state);
        left
    }

    /// How many items wait to be taken.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("nothing panics while the batcher's lock is held")
    }
}

/// The one item that was pushed and is handed back.
fn only<T>(rejected: Rejected<Vec<T>>) -> Rejected<T> {
    let only = |mut items: Vec<T>| items.pop().expect("one item was pushed, so one is handed back");
    match rejected {
        Rejected::Full(items) => Rejected::Full(only(items)),
        Rejected::Closed(items) => Rejected::Closed(only(items)),
    }
}

/// Puts a taker on the list.
fn list<T>(mut state: MutexGuard<'_, State<T>>, taker: &Waker) {
    if state.takers.iter().any(|listed| listed.will_wake(taker)) {
        return;
    }
    if state.takers.len() < TAKERS_MAX {
        state.takers.push(taker.clone());
        return;
    }
    let crowd = mem::replace(&mut state.takers, vec![taker.clone()]);
    drop(state);
    crowd.into_iter().for_each(Waker::wake);
}

/// Wakes the takers once the lock is free, so that they do not wake up only to wait for it.
fn wake<T>(mut state: MutexGuard<'_, State<T>>) {
    let takers = mem::take(&mut state.takers);
    let (waiting, closed) = (state.waiting.len(), state.closed);
    let gatherer = state.gatherer.take_if(|(_, count)| waiting >= *count || closed);
    drop(state);
    takers.into_iter().chain(gatherer.map(|(waker, _)| waker)).for_each(Waker::wake);
}

/// A mistake that a broken batcher makes, to show that the shuttle tests would catch it.
#[cfg(feature = "shuttle")]
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// A taker lets go of the lock between finding nothing and leaving its waker.
    LateWaker,
    /// A pusher lets go of the lock between finding room and taking it.
    LatePush,
}

#[cfg(feature = "shuttle")]
#[doc(hidden)]
impl<T> Batcher<T> {
    pub fn broken(capacity: usize, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..Self::new(capacity) }
    }
}

// Under shuttle the lock only works inside of an exploration: tests/shuttle.rs has those.
#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_batch_is_what_gathered_up_to_its_limit_oldest_first() {
        let batcher = Batcher::new(8);
        (0..5).for_each(|n| batcher.push(n).unwrap());
        assert_eq!(poll(batcher.next_batch(3)), Poll::Ready(Some(vec![0, 1, 2])));
        assert_eq!(poll(batcher.next_batch(3)), Poll::Ready(Some(vec![3, 4])));
        assert_eq!(poll(batcher.next_batch(3)), Poll::Pending);
    }

    #[test]
    fn a_batch_that_leaves_some_is_cut_where_it_is_said() {
        let batcher = Batcher::new(8);
        (0..5).for_each(|n| batcher.push(n).unwrap());
        let cx = Context::from_waker(Waker::noop());
        let two_less = |_: &VecDeque<i32>, count: usize| count.saturating_sub(2);
        assert_eq!(batcher.poll_batch_cut(&cx, 4, two_less), Poll::Ready(Some(vec![0, 1])));
        assert_eq!(batcher.poll_batch_cut(&cx, 1, two_less), Poll::Ready(Some(vec![2])), "never nothing");
        assert_eq!(batcher.poll_batch_cut(&cx, 4, two_less), Poll::Ready(Some(vec![3, 4])), "none are left");
    }

    #[test]
    fn what_does_not_fit_is_handed_back() {
        let batcher = Batcher::new(3);
        batcher.push(0).unwrap();
        assert_eq!(batcher.push_all(vec![1, 2, 3, 4]), Err(Rejected::Full(vec![3, 4])));
        assert_eq!(batcher.push(5), Err(Rejected::Full(5)));
        assert_eq!(batcher.waiting(), 3);
    }

    #[test]
    fn a_closed_queue_takes_nothing_in_and_gives_out_what_it_has() {
        let batcher = Batcher::new(3);
        batcher.push(0).unwrap();
        batcher.close();
        assert_eq!(batcher.push(1), Err(Rejected::Closed(1)));
        assert_eq!(poll(batcher.next_batch(9)), Poll::Ready(Some(vec![0])));
        assert_eq!(poll(batcher.next_batch(9)), Poll::Ready(None));
    }

    #[test]
    fn an_abandoned_queue_gives_up_all_it_has() {
        let batcher = Batcher::new(3);
        batcher.push_all(vec![0, 1]).unwrap();
        assert_eq!(batcher.abandon(), [0, 1]);
        assert_eq!(batcher.push(2), Err(Rejected::Closed(2)));
        assert_eq!(poll(batcher.next_batch(9)), Poll::Ready(None));
    }

    #[test]
    fn a_patient_item_comes_along_with_the_next_batch() {
        let batcher = Batcher::new(8);
        batcher.push_patient(0).unwrap();
        assert_eq!(poll(batcher.next_batch(9)), Poll::Pending, "alone it causes no batch");
        batcher.push(1).unwrap();
        assert_eq!(poll(batcher.next_batch(9)), Poll::Ready(Some(vec![0, 1])));
        batcher.push_patient(2).unwrap();
        assert_eq!(poll(batcher.next_batch(9)), Poll::Pending, "the haste of a batch ends with it");
    }

    #[test]
    fn a_patient_item_waits_no_longer_when_told_so_or_when_many_wait_or_at_the_end() {
        let batcher = Batcher::new(99);
        batcher.hurry();
        batcher.push_patient(0).unwrap();
        assert_eq!(poll(batcher.next_batch(9)), Poll::Pending, "there was nobody to hurry");
        batcher.hurry();
        assert_eq!(poll(batcher.next_batch(9)), Poll::Ready(Some(vec![0])));
        (0..PATIENT_MAX).for_each(|n| batcher.push_patient(n).unwrap());
        assert_eq!(poll(batcher.next_batch(99)), Poll::Ready(Some((0..PATIENT_MAX).collect())));
        batcher.push_patient(7).unwrap();
        batcher.close();
        assert_eq!(poll(batcher.next_batch(9)), Poll::Ready(Some(vec![7])));
        assert_eq!(poll(batcher.next_batch(9)), Poll::Ready(None));
    }

    #[test]
    fn a_queue_that_patient_items_fill_is_not_stuck() {
        let batcher = Batcher::new(2);
        batcher.push_patient(0).unwrap();
        batcher.push_patient(1).unwrap();
        assert_eq!(batcher.push_patient(2), Err(Rejected::Full(2)));
        assert_eq!(poll(batcher.next_batch(9)), Poll::Ready(Some(vec![0, 1])));
    }

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_idle_queue_does_not_grow_and_forgets_no_taker() {
        let batcher = Batcher::new(3);
        let bells: Vec<Arc<Bell>> = (0..TAKERS_MAX * 4 + 1).map(|_| Arc::default()).collect();
        for bell in &bells {
            let waker = Waker::from(bell.clone());
            assert!(batcher.poll_batch(&Context::from_waker(&waker), 1).is_pending());
            assert!(batcher.lock().takers.len() <= TAKERS_MAX);
        }
        batcher.push(0).unwrap();
        assert!(bells.iter().all(|bell| bell.0.load(Ordering::Relaxed) == 1), "each was woken, none twice");
    }
}
