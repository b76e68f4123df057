//! Why a server did not do what a command asked for: one line for people, an exit code for scripts.

use semel_client::http::{Code, Error, Failure, Problem};

use crate::text::printable;

/// The server was not reached, or is too busy: try again.
const TRY_AGAIN: u8 = 3;
/// The API key is missing, unknown, or not allowed to do this.
const NOT_ALLOWED: u8 = 4;
/// What the command is about is not there.
const NOT_THERE: u8 = 5;
/// The server refused.
const REFUSED: u8 = 6;
/// It was our setup.
const SETUP: u8 = 2;

/// What kept a server from doing it.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Trouble {
    words: String,
    /// The exit code.
    pub(crate) exit_code: u8,
}

impl Trouble {
    /// What an error of the client means.
    pub(crate) fn of(server: &str, error: &Error) -> Self {
        let (words, exit_code) = match error {
            Error::Refused(problem) => (refusal(problem), code_of(problem)),
            Error::Deadline { last, maybe_done, .. } => (failed(server, last, *maybe_done), TRY_AGAIN),
            Error::Setup(_) => (error.to_string(), SETUP),
            Error::Answer(_) => (format!("{server}: {error}"), REFUSED),
        };
        Self { words: printable(&words), exit_code }
    }

    /// There is no such thing, as we found out ourselves.
    pub(crate) fn absence(words: String) -> Self {
        Self { words, exit_code: NOT_THERE }
    }

    /// Whether the API key may not do it.
    pub(crate) fn is_denial(&self) -> bool {
        self.exit_code == NOT_ALLOWED
    }

    /// Whether there just is no such thing.
    pub(crate) fn is_absence(&self) -> bool {
        self.exit_code == NOT_THERE
    }
}

fn code_of(problem: &Problem) -> u8 {
    match (&problem.code, problem.status) {
        (Code::QueueNotFound | Code::JobNotFound | Code::KeyNotFound | Code::RecordNotFound, _) => NOT_THERE,
        (_, 401 | 403) => NOT_ALLOWED,
        _ if problem.retryable => TRY_AGAIN,
        _ => REFUSED,
    }
}

fn refusal(problem: &Problem) -> String {
    let next = match problem.code {
        Code::Unauthorized => "; set SEMEL_API_KEY, or name a file with the key by --api-key-file",
        Code::QueueNotFound => "; `semel queue list` shows those there are",
        _ => "",
    };
    format!("{problem}{next}")
}

fn failed(server: &str, failure: &Failure, maybe_done: bool) -> String {
    let unknown = if maybe_done { "; it may have happened: look before you try again" } else { "" };
    match failure {
        Failure::Unreachable(words) => {
            let reason = plain(words);
            format!("cannot reach {server}: {reason}; {}{unknown}", unreachable_advice(&reason))
        }
        Failure::Unanswered(words) => format!("{server} did not answer: {}{unknown}", plain(words)),
        Failure::Nonsense(words) => {
            format!("what is at {server} does not speak HTTP ({words}): is it https:// instead of http://?")
        }
        Failure::Problem(problem) => format!("{problem}; try again{unknown}"),
    }
}

/// What to do about a connection that is not made.
fn unreachable_advice(reason: &str) -> &'static str {
    if reason.contains("UnknownIssuer") {
        return "its certificate is from an authority that is not known here: name that with --ca-cert FILE";
    }
    if reason.contains("InvalidContentType") {
        return "it does not speak TLS there: is it http:// instead of https://?";
    }
    if reason.contains("certificate") {
        return "its certificate does not fit: see --server and --ca-cert";
    }
    "is the server running? start one with `semel dev`, or say where it is with --server"
}

/// A system's error as part of a sentence, without its number.
fn plain(words: &str) -> String {
    let words = words.split(" (os error").next().unwrap_or(words);
    // A word such as ENOENT or TLS stays as it is.
    let mut letters = words.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain([second]).chain(letters).collect()
        }
        _ => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "http://127.0.0.1:7477";

    fn gave_up(last: Failure, maybe_done: bool) -> Trouble {
        Trouble::of(SERVER, &Error::Deadline { tries: 1, maybe_done, last: Box::new(last) })
    }

    #[test]
    fn a_server_that_is_not_there_is_told_in_one_line() {
        let trouble = gave_up(Failure::Unreachable("Connection refused (os error 111)".into()), false);
        let expected = "cannot reach http://127.0.0.1:7477: connection refused; is the server running? \
                        start one with `semel dev`, or say where it is with --server";
        assert_eq!((trouble.to_string().as_str(), trouble.exit_code), (expected, 3));
    }

    #[test]
    fn what_to_do_fits_what_is_wrong() {
        for (words, expected) in [
            ("invalid peer certificate: UnknownIssuer", "--ca-cert FILE"),
            ("received corrupt message of type InvalidContentType", "http:// instead"),
            ("invalid peer certificate: NotValidForName", "does not fit"),
        ] {
            let trouble = gave_up(Failure::Unreachable(words.into()), false).to_string();
            assert!(trouble.contains(expected), "{trouble}");
        }
        let lost = gave_up(Failure::Unanswered("connection\nlost".into()), true);
        assert!(lost.to_string().contains("\\n") && lost.to_string().contains("may have happened"), "{lost}");
    }
}
