//! What a book keeps of each publish and each job.

use semel_core::ids::{JobId, Token};
use semel_core::lease::LEASE_RANGE;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

use super::Subject;
use crate::history::{Answer, Delivered, Digest, Say};

/// From the invocation of a call to its answer: its effect, if it had one, lies between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Which of the processes that wrote the history it happened in, from 0.
    pub round: u32,
    /// The line of the invocation.
    pub invoked: u64,
    /// The store's time just before it.
    pub from: Timestamp,
    /// The line of the answer; the end of time if there was none.
    pub answered: u64,
    /// The store's time just after it; the end of time if there was none.
    pub until: Timestamp,
}

impl Span {
    /// A span whose end is not known yet.
    pub fn open(round: u32, line: u64, at: Timestamp) -> Self {
        Self { round, invoked: line, from: at, answered: u64::MAX, until: Timestamp::from_millis(u64::MAX) }
    }

    /// The same with its end.
    #[must_use]
    pub fn closed(self, line: u64, at: Timestamp) -> Self {
        Self { answered: line, until: at, ..self }
    }

    /// Whether this was over before `other` began.
    pub fn precedes(&self, other: &Span) -> bool {
        self.answered < other.invoked
    }
}

/// What is known of a call's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It took effect.
    Ok,
    /// It did not.
    Failed,
    /// It may have, or may still.
    Unknown,
}

/// One publish.
#[derive(Debug, Clone)]
pub struct PublishTrace {
    /// When.
    pub span: Span,
    /// Whether it took effect.
    pub fate: Fate,
    /// The digest of its payload.
    pub digest: Digest,
    /// How long the job was to wait.
    pub delay: Millis,
    /// What it was answered.
    pub answer: Option<PublishAnswer>,
}

/// What a publish was answered.
#[derive(Debug, Clone, Copy)]
pub struct PublishAnswer {
    /// The job.
    pub id: JobId,
    /// When it was published first.
    pub created_at: Timestamp,
    /// Whether it is an earlier publish's job.
    pub deduplicated: bool,
    /// Whether the payload is said to be that of the first publish.
    pub matches: bool,
}

impl PublishTrace {
    /// A publish that has been invoked.
    pub fn new(span: Span, digest: Digest, delay: Millis) -> Self {
        Self { span, fate: Fate::Unknown, digest, delay, answer: None }
    }

    /// Notes the answer.
    pub fn answered(&mut self, id: JobId, created_at: Timestamp, deduplicated: bool, matches: bool) {
        self.fate = Fate::Ok;
        self.answer = Some(PublishAnswer { id, created_at, deduplicated, matches });
    }

    /// Whether this publish made the job, or may have.
    pub fn may_have_made(&self, id: JobId) -> bool {
        match self.fate {
            Fate::Ok => self.answer.is_some_and(|answer| answer.id == id && !answer.deduplicated),
            Fate::Unknown => true,
            Fate::Failed => false,
        }
    }
}

/// One job.
#[derive(Debug, Clone, Default)]
pub struct JobTrace {
    /// Where it was published, or delivered; `None` if only its id was ever named.
    pub subject: Option<Subject>,
    /// What was done with it, in the order the book heard of it.
    pub acts: Vec<Act>,
}

/// Something done with a job.
#[derive(Debug, Clone)]
pub struct Act {
    /// When.
    pub span: Span,
    /// Whether it took effect.
    pub fate: Fate,
    /// What.
    pub deed: Deed,
}

/// What can be done with a job.
#[derive(Debug, Clone)]
pub enum Deed {
    /// It was delivered.
    Deliver {
        /// From which queue.
        queue: QueueName,
        /// What the worker got.
        delivered: Delivered,
    },
    /// A delivery was settled.
    Settle {
        /// The token used.
        token: Token,
        /// What was said.
        say: Say,
        /// What was answered.
        reply: Option<SettleReply>,
    },
    /// A lease was extended.
    Extend {
        /// The token used.
        token: Token,
        /// When the lease was to end then.
        until: Option<Timestamp>,
    },
    /// It was called off.
    Cancel,
    /// Its lease was ended because it had run out.
    Rescued,
}

/// What a settle was answered.
#[derive(Debug, Clone, Copy)]
pub struct SettleReply {
    /// Where the job stood.
    pub state: State,
    /// When it was due again.
    pub due: Option<Timestamp>,
    /// Whether it had been settled so before.
    pub repeated: bool,
}

impl Deed {
    /// The delivery, if it is one.
    pub fn delivered(&self) -> Option<&Delivered> {
        match self {
            Self::Deliver { delivered, .. } => Some(delivered),
            _ => None,
        }
    }
}

impl Act {
    /// Notes the answer; false if it is not one to this deed.
    pub(super) fn answered(&mut self, answer: Answer) -> bool {
        self.fate = Fate::Ok;
        match (&mut self.deed, answer) {
            (Deed::Settle { reply, .. }, Answer::Settled { state, due, repeated }) => {
                *reply = Some(SettleReply { state, due, repeated });
            }
            (Deed::Extend { until, .. }, Answer::Extended { until: answered }) => *until = Some(answered),
            (Deed::Cancel, Answer::Cancelled) => {}
            _ => return false,
        }
        true
    }

    /// The state in which this certainly ended the job.
    pub fn certain_end(&self) -> Option<State> {
        match (&self.deed, self.fate) {
            (Deed::Cancel, Fate::Ok) => Some(State::Cancelled),
            (Deed::Settle { reply: Some(reply), .. }, Fate::Ok) => {
                Some(reply.state).filter(|s| s.is_finished())
            }
            _ => None,
        }
    }

    /// Whether this ended the job in `state`, or may have.
    pub fn may_have_ended_in(&self, state: State) -> bool {
        if let Some(certain) = self.certain_end() {
            return certain == state;
        }
        match (&self.deed, self.fate) {
            (Deed::Rescued, _) => state == State::Dead,
            (Deed::Cancel, Fate::Unknown) => state == State::Cancelled,
            (Deed::Settle { say, .. }, Fate::Unknown) => match say {
                Say::Ack => state == State::Completed,
                Say::Nack | Say::Reject => state == State::Dead,
                Say::Defer | Say::Receive => false,
            },
            _ => false,
        }
    }

    /// The token and the word of a settle that took effect, or may have (`repeated` ones changed nothing themselves).
    pub fn settle(&self) -> Option<(Token, Say)> {
        match &self.deed {
            Deed::Settle { token, say, .. } if self.fate != Fate::Failed => Some((*token, *say)),
            _ => None,
        }
    }

    /// The token, the word and the answer of a settle that took effect with this very call.
    pub fn effective_settle(&self) -> Option<(Token, Say, SettleReply)> {
        match &self.deed {
            Deed::Settle { token, say, reply: Some(reply) } if !reply.repeated => {
                Some((*token, *say, *reply))
            }
            _ => None,
        }
    }
}

impl JobTrace {
    /// The deliveries, in the order the book heard of them.
    pub fn deliveries(&self) -> impl Iterator<Item = (&Span, &Delivered)> {
        self.acts.iter().filter_map(|act| Some((&act.span, act.deed.delivered()?)))
    }

    /// When the lease of a delivery may have ended at the earliest. An extension counts from when it is asked for, so it
    /// can also make a lease shorter.
    pub fn earliest_lease_end(&self, delivered: &Delivered) -> Timestamp {
        let extended =
            self.acts.iter().filter(|act| act.fate != Fate::Failed).filter_map(|act| match act.deed {
                Deed::Extend { token, until } if token == delivered.token => {
                    Some(until.unwrap_or(act.span.from.plus(*LEASE_RANGE.start())))
                }
                _ => None,
            });
        extended.chain([delivered.deadline]).min().unwrap_or(delivered.deadline)
    }

    /// The acts that certainly ended the job, and how.
    pub fn certain_ends(&self) -> impl Iterator<Item = (&Span, State)> {
        self.acts.iter().filter_map(|act| Some((&act.span, act.certain_end()?)))
    }

    /// The earliest time at which the job may have ended.
    pub fn earliest_end(&self) -> Option<Timestamp> {
        let ends = |act: &&Act| State::ALL.iter().any(|&state| act.may_have_ended_in(state));
        self.acts.iter().filter(ends).map(|act| act.span.from).min()
    }
}

/// A rescue that was not heard of again.
#[derive(Debug, Clone, Copy)]
pub struct LostRescue {
    /// The process that sent it.
    pub round: u32,
    /// It cannot have found a lease that ran out after this time.
    pub until: Timestamp,
}

/// A lease call that was not heard of again: it may have delivered anything of its queue to nobody.
#[derive(Debug, Clone)]
pub struct LostLease {
    /// The process that sent it.
    pub round: u32,
    /// The queue.
    pub queue: QueueName,
    /// When what it leased runs out, at the earliest.
    pub expires: Timestamp,
}
