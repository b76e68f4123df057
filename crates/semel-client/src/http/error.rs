//! Why a call did not succeed.

use super::Problem;

/// Why a call did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server said no. The same call gets the same answer until something is changed.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The deadline is over, and no try succeeded.
    #[error("gave up after {tries} tries: {last}{}", if *maybe_done { MAYBE_DONE } else { "" })]
    Deadline {
        /// How often it was tried.
        tries: u32,
        /// Whether a try may have reached the server and taken effect. A publish is cleared up by sending the same
        /// [`Publish`](crate::Publish) again.
        maybe_done: bool,
        /// What went wrong last.
        last: Box<Failure>,
    },
    /// The client cannot be set up like this.
    #[error("{0}")]
    Setup(String),
    /// The server answered something that this version does not understand.
    #[error("the server answered something unexpected: {0}; is it another version?")]
    Answer(String),
}

const MAYBE_DONE: &str = "; it may have happened: send the same again to know";

/// Why one try failed that may be followed by another.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    /// The server was not reached: nothing has happened.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The request was sent, and no answer came: it may have happened.
    #[error("the server did not answer: {0}")]
    Unanswered(String),
    /// What answered does not speak HTTP, and will not learn it.
    #[error("what answered does not speak HTTP: {0}")]
    Nonsense(String),
    /// The server answered that it cannot do it.
    #[error("{0}")]
    Problem(Box<Problem>),
}

impl Error {
    /// Whether the same call may succeed later, without anybody mending anything.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Refused(problem) => problem.retryable,
            Self::Deadline { .. } => true,
            Self::Setup(_) | Self::Answer(_) => false,
        }
    }

    /// What the server said last, if it said anything.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            Self::Deadline { last, .. } => match last.as_ref() {
                Failure::Problem(problem) => Some(problem),
                Failure::Unreachable(_) | Failure::Unanswered(_) | Failure::Nonsense(_) => None,
            },
            Self::Setup(_) | Self::Answer(_) => None,
        }
    }
}
