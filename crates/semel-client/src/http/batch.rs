//! Publishing many jobs at once.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::address::segment;
use super::exchange::Ask;
use super::patience::Tries;
use super::{Client, Code, Error, Failure, Problem, Published, Reply, publish};
use crate::Publish;

/// Most jobs in one request, as the server has it.
pub const BATCH_COUNT_MAX: usize = 1000;

/// Most bytes in one request. The server takes 16 MiB by default; its operator may have set less, but not below one
/// payload, and a smaller request is answered sooner.
pub const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
struct Results<T> {
    results: Vec<T>,
}

impl Client {
    /// Publishes many jobs, of any queues, in as few requests as it takes. There is one answer per publish, in their
    /// order; each succeeds or fails for itself. Those of one queue are published in their order, as long as none fails.
    ///
    /// What the server could not do for a passing reason is tried again, with everything else, until the deadline.
    pub async fn publish_all(&self, publishes: &[Publish]) -> Vec<Result<Published, Error>> {
        let mut answers = Answers(publishes.iter().map(|_| None).collect());
        let tries = self.tries(Duration::ZERO);
        let mut todo = VecDeque::from(requests(publishes));
        while let Some(request) = todo.pop_front() {
            if let Some((first, second)) =
                self.publish_request(publishes, request, tries.anew(), &mut answers).await
            {
                todo.push_front(second);
                todo.push_front(first);
            }
        }
        answers.all()
    }

    /// One request, again and again with what is left of it. If the server finds it too large it comes back in two halves:
    /// an operator may have allowed less than is usual.
    async fn publish_request(
        &self,
        publishes: &[Publish],
        mut left: Vec<usize>,
        mut tries: Tries,
        answers: &mut Answers,
    ) -> Option<(Vec<usize>, Vec<usize>)> {
        while !left.is_empty() {
            let failure = match self.publish_once(publishes, &left, &tries).await {
                Ok(items) => answers.sort(&mut left, items)?,
                Err(Tried::Failed(failure)) if left.len() > 1 && is_too_large(&failure) => {
                    let second = left.split_off(left.len() / 2);
                    return Some((left, second));
                }
                Err(Tried::Failed(failure)) => failure,
                Err(Tried::Wrong(error)) => {
                    answers.fail(&left, &error);
                    return None;
                }
            };
            if let Err(error) = tries.after(failure).await {
                answers.fail(&left, &error);
                return None;
            }
        }
        None
    }

    async fn publish_once(
        &self,
        publishes: &[Publish],
        left: &[usize],
        tries: &Tries,
    ) -> Result<Vec<Result<Published, Problem>>, Tried> {
        if tries.left().is_zero() {
            return Err(Tried::Failed(Failure::Unreachable("the deadline was over before its turn".into())));
        }
        let queue = publishes[left[0]].queue();
        let body = body(left.iter().map(|at| &publishes[*at]))?;
        let ask = Ask::post(self, &format!("/v1/queues/{}/jobs/batch", segment(queue)), body)?;
        let answer = self.exchange(&ask, tries.next(ask.hold)).await.map_err(Tried::Failed)?;
        let items = read_items(&answer)?;
        if items.len() != left.len() {
            let words = format!("{} answers to {} jobs", items.len(), left.len());
            return Err(Error::Answer(words).into());
        }
        Ok(items)
    }
}

/// Publishes as the API takes them.
fn body<'a>(publishes: impl Iterator<Item = &'a Publish>) -> Result<Vec<u8>, Error> {
    let mut body = br#"{"jobs":["#.to_vec();
    for (at, publish) in publishes.enumerate() {
        if at > 0 {
            body.push(b',');
        }
        publish::write(publish, &mut body)?;
    }
    body.extend_from_slice(b"]}");
    Ok(body)
}

fn is_too_large(failure: &Failure) -> bool {
    matches!(failure, Failure::Problem(problem) if problem.code == Code::BodyTooLarge)
}

/// How one try of a batch ended without answers for its items.
enum Tried {
    Failed(Failure),
    Wrong(Error),
}

impl From<Error> for Tried {
    fn from(error: Error) -> Self {
        Self::Wrong(error)
    }
}

/// Nearly always all of them are jobs, which is read at once.
fn read_items(answer: &Reply) -> Result<Vec<Result<Published, Problem>>, Tried> {
    if let Ok(Results { results }) = answer.read::<Results<Published>>() {
        return Ok(results.into_iter().map(Ok).collect());
    }
    let Results { results } = answer.read::<Results<Box<RawValue>>>()?;
    results.iter().map(|item| read_item(item)).collect()
}

/// An item is a problem or a job; a problem has a code, and a job has not.
fn read_item(item: &RawValue) -> Result<Result<Published, Problem>, Tried> {
    let error = match serde_json::from_str(item.get()) {
        Ok(published) => return Ok(Ok(published)),
        Err(error) => error,
    };
    Problem::item(item.get()).map(Err).ok_or_else(|| Error::Answer(error.to_string()).into())
}

/// The answers of a call, each in its place.
struct Answers(Vec<Option<Result<Published, Error>>>);

impl Answers {
    /// Puts answers in their places. What is to be tried again stays in `left`, and the reason is returned.
    fn sort(&mut self, left: &mut Vec<usize>, items: Vec<Result<Published, Problem>>) -> Option<Failure> {
        let mut passing = None;
        let mut again = Vec::new();
        for (at, item) in left.drain(..).zip(items) {
            match item {
                Ok(published) => self.0[at] = Some(Ok(published)),
                Err(problem) if problem.retryable => {
                    again.push(at);
                    passing = Some(Failure::Problem(Box::new(problem)));
                }
                Err(problem) => self.0[at] = Some(Err(Error::Refused(Box::new(problem)))),
            }
        }
        *left = again;
        passing
    }

    /// What is left ends as the request ended.
    fn fail(&mut self, left: &[usize], error: &Error) {
        left.iter().for_each(|at| self.0[*at] = Some(Err(error.clone())));
    }

    fn all(self) -> Vec<Result<Published, Error>> {
        let missing = || Err(Error::Answer("a publish was left out".into()));
        self.0.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }
}

/// Which publishes go together: of one queue, in their order, and no more than a request may hold.
fn requests(publishes: &[Publish]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut open: Vec<(&str, usize, usize)> = Vec::new();
    for (at, publish) in publishes.iter().enumerate() {
        let size = size(publish);
        let found = open.iter().position(|(queue, _, _)| *queue == publish.queue());
        if let Some(found) = found {
            let (_, request, bytes) = &mut open[found];
            if all[*request].len() < BATCH_COUNT_MAX && *bytes + size <= BATCH_BYTES_MAX {
                all[*request].push(at);
                *bytes += size;
                continue;
            }
            open.swap_remove(found);
        }
        open.push((publish.queue(), all.len(), size));
        all.push(vec![at]);
    }
    all
}

/// About how long a publish is as JSON.
fn size(publish: &Publish) -> usize {
    const ENVELOPE: usize = 1024;
    publish.payload().len() + ENVELOPE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_of_one_queue_each_and_bounded() {
        let of = |queue: &str, text: &str| Publish::new(queue, text).unwrap();
        let mixed = [of("a", "1"), of("b", "1"), of("a", "2")];
        assert_eq!(requests(&mixed), [vec![0, 2], vec![1]]);
        let many: Vec<_> = (0..2001).map(|_| of("a", "1")).collect();
        assert_eq!(requests(&many).iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 1]);
        let large = "x".repeat(BATCH_BYTES_MAX / 2);
        assert_eq!(requests(&[of("a", &large), of("a", &large), of("a", "1")]), [vec![0], vec![1, 2]]);
        assert_eq!(requests(&[]), Vec::<Vec<usize>>::new());
    }
}
