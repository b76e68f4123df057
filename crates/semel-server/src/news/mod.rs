//! What happened, told to whoever waits for it.
//!
//! Every change to the store passes [`Heralded`], so there is one place that knows: a dispatcher is rung when its queue
//! has something new, a caller who waits for a result when its job ends, a listener of the event stream of everything.
//! News are hints: on a shared store another node's changes are heard late or not at all, so everybody who waits also looks
//! for itself now and then. What other nodes should know of goes into the [`Outbox`]; what they tell is passed on here by
//! `peers`.

mod bells;
mod ends;
mod event;
mod heralded;
mod outbox;
mod times;

use tokio::sync::{broadcast, mpsc, watch};

pub use self::bells::{Bell, Bells};
pub use self::ends::Ends;
pub use self::event::{Event, Kind};
pub use self::heralded::Heralded;
pub use self::outbox::Outbox;
pub use self::times::{HandlerTimes, Times};

use semel_core::ids::JobId;
use semel_core::name::QueueName;

use crate::advice::Watch;

/// How many events a slow listener may be behind before it misses some. At a thousand events a second that is seconds.
const EVENTS_BEHIND: usize = 4096;

/// How many jobs may wait to be judged as persistent duplicates. What does not fit is judged at its next duplicate.
const SUSPECTS_MAX: usize = 1024;

/// A job that was published or redelivered once more, to be judged by its queue's limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// Its queue.
    pub queue: QueueName,
    /// The job.
    pub id: JobId,
}

/// Everything that can be listened to.
#[derive(Debug)]
pub struct News {
    /// Something may be ready in a queue.
    pub bells: Bells,
    /// A job ended.
    pub ends: Ends,
    /// How long handlers take, per queue.
    pub times: HandlerTimes,
    /// What went through the queues, for advice.
    pub watch: Watch,
    /// A queue was made, changed, paused, resumed or taken away.
    pub queues: watch::Sender<u64>,
    /// A schedule or a replay task was made, changed or taken away.
    pub tasks: watch::Sender<u64>,
    /// What other nodes are to be told.
    pub outbox: Outbox,
    events: broadcast::Sender<Event>,
    suspects: mpsc::Sender<Suspect>,
}

impl News {
    /// News nobody has listened to yet, and the suspects for the one role that judges them.
    pub fn new() -> (Self, mpsc::Receiver<Suspect>) {
        let (suspects, judged) = mpsc::channel(SUSPECTS_MAX);
        let news = Self {
            bells: Bells::default(),
            ends: Ends::default(),
            times: HandlerTimes::default(),
            watch: Watch::default(),
            queues: watch::Sender::new(0),
            tasks: watch::Sender::new(0),
            outbox: Outbox::default(),
            events: broadcast::Sender::new(EVENTS_BEHIND),
            suspects,
        };
        (news, judged)
    }

    /// Listens to everything from now on.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Tells the listeners. The event is made only if somebody listens: a server at full speed has other things to do.
    pub fn tell(&self, make: impl FnOnce() -> Event) {
        if self.events.receiver_count() > 0 {
            // The last listener may have left in between; then nobody misses it.
            drop(self.events.send(make()));
        }
    }

    /// Says that a queue was made, changed or taken away.
    pub fn queue_changed(&self, queue: &QueueName) {
        self.queues_changed();
        self.bells.ring(queue, usize::MAX);
    }

    /// Says that some queue was made, changed or taken away.
    pub fn queues_changed(&self) {
        self.queues.send_modify(|version| *version += 1);
    }

    /// Forgets a queue that is gone.
    pub fn queue_gone(&self, queue: &QueueName) {
        self.queue_changed(queue);
        self.bells.forget(queue);
        self.times.forget(queue);
        self.watch.forget(queue);
    }

    /// Says that a schedule or a replay task was made, changed or taken away.
    pub fn tasks_changed(&self) {
        self.tasks.send_modify(|version| *version += 1);
    }

    /// Something may be ready in a queue for so many workers, here and at other nodes.
    pub(crate) fn ready(&self, queue: &QueueName, jobs: u32) {
        self.bells.ring(queue, usize::try_from(jobs).unwrap_or(usize::MAX));
        self.outbox.ready(queue, jobs);
    }

    /// Has a job judged as a persistent duplicate.
    fn suspect(&self, queue: &QueueName, id: JobId) {
        // A full list means that the judge is busy with others; this one is judged when it comes again.
        drop(self.suspects.try_send(Suspect { queue: queue.clone(), id }));
    }
}
