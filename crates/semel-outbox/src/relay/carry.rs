//! One claim, carried: published in as few requests as order allows, and settled.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use semel_client::Publish;
use semel_client::http::{Client, Code, Error as Refusal, Problem, Published};
use tokio::time::Instant;

use super::holds::Holds;
use super::row::{Refused, Row};
use super::source::Claim;
use super::{Error, Tally};

/// How long a claim is held before it is settled, whatever is left of it: a transaction that stays open for long is a burden
/// to the database.
const BUDGET: Duration = Duration::from_secs(10);

/// The longest reason that is kept.
const REASON_MAX: usize = 1000;

/// What became of one row.
enum Fate {
    Carried {
        known: bool,
        matches: bool,
    },
    Refused(Refused),
    /// Not now.
    Left(Option<Duration>, String),
}

/// Publishes the rows of a claim and settles it.
pub(super) async fn carry(client: &Client, mut claim: Box<dyn Claim>, holds: &Holds) -> Result<Tally, Error> {
    let rows = claim.rows();
    let end = Instant::now() + BUDGET;
    let mut work = Work::new(&rows);
    while Instant::now() < end
        && let Some(round) = work.round()
    {
        for (row, fate) in publish(client, &round).await {
            work.judge(row, fate, holds);
        }
    }
    let Work { carried, refused, tally, .. } = work;
    if !carried.is_empty() || !refused.is_empty() {
        claim.settle(carried, refused).await?;
    }
    Ok(tally)
}

/// A claim while it is worked on.
struct Work<'a> {
    /// What has no order.
    free: Vec<&'a Row>,
    /// What has, by queue and group.
    groups: HashMap<(&'a str, &'a str), VecDeque<&'a Row>>,
    /// Queues that take nothing for now.
    left: HashSet<String>,
    carried: Vec<i64>,
    refused: Vec<(i64, Refused)>,
    tally: Tally,
}

impl<'a> Work<'a> {
    fn new(rows: &'a [Row]) -> Self {
        let mut groups: HashMap<_, VecDeque<_>> = HashMap::new();
        let mut free = Vec::new();
        for row in rows {
            match &row.group {
                Some(group) => groups.entry((row.queue.as_str(), group.as_str())).or_default().push_back(row),
                None => free.push(row),
            }
        }
        let (left, tally) = (HashSet::new(), Tally::default());
        Self { free, groups, left, carried: Vec::new(), refused: Vec::new(), tally }
    }

    /// What may be published next: everything without an order, and the first of each group. The second of a group must not
    /// be in the same request: if the server refused the first, it would be too late to hold back the second.
    fn round(&mut self) -> Option<Vec<&'a Row>> {
        let left = &self.left;
        self.groups.retain(|(queue, _), rows| !rows.is_empty() && !left.contains(*queue));
        let mut round = std::mem::take(&mut self.free);
        round.extend(self.groups.values_mut().filter_map(VecDeque::pop_front));
        // Queues see their jobs in the order of the rows, where nothing else is said.
        round.sort_unstable_by_key(|row| row.id);
        (!round.is_empty()).then_some(round)
    }

    fn judge(&mut self, row: &'a Row, fate: Fate, holds: &Holds) {
        match fate {
            Fate::Carried { known, matches } => {
                if !matches {
                    // As with any other publish, unless the queue rejects collisions.
                    tracing::warn!(
                        row = row.id,
                        queue = row.queue,
                        key = row.key,
                        "its key stands for another payload"
                    );
                }
                holds.release(&row.queue);
                self.carried.push(row.id);
                self.tally += Tally { carried: 1, known: u64::from(known), refused: 0 };
            }
            Fate::Refused(refused) => {
                let Refused { code, reason } = &refused;
                tracing::warn!(
                    row = row.id,
                    queue = row.queue,
                    code,
                    reason,
                    "the server refused a row; it is dead"
                );
                self.refused.push((row.id, refused));
                self.tally.refused += 1;
                self.stop_group(row);
            }
            Fate::Left(asked, reason) => {
                if self.left.insert(row.queue.clone()) {
                    let wait = holds.hold(&row.queue, asked);
                    tracing::warn!(
                        queue = row.queue,
                        reason,
                        ?wait,
                        "rows could not be carried and are kept"
                    );
                }
                self.stop_group(row);
            }
        }
    }

    /// What is behind this row waits for it.
    fn stop_group(&mut self, row: &'a Row) {
        if let Some(group) = &row.group {
            self.groups.remove(&(row.queue.as_str(), group.as_str()));
        }
    }
}

/// Publishes rows; what became of each.
async fn publish<'a>(client: &Client, round: &[&'a Row]) -> Vec<(&'a Row, Fate)> {
    let mut fates = Vec::with_capacity(round.len());
    let mut fit: Vec<&Row> = Vec::with_capacity(round.len());
    let mut wishes: Vec<Publish> = Vec::with_capacity(round.len());
    for row in round {
        match row.publish() {
            Ok(wish) => {
                fit.push(row);
                wishes.push(wish);
            }
            Err(refused) => fates.push((*row, Fate::Refused(refused))),
        }
    }
    let answers = client.publish_all(&wishes).await;
    fates.extend(fit.into_iter().zip(answers.into_iter().map(fate)));
    fates
}

fn fate(answer: Result<Published, Refusal>) -> Fate {
    match answer {
        Ok(Published { deduplicated: known, payload_matches: matches, .. }) => {
            Fate::Carried { known, matches }
        }
        Err(Refusal::Refused(problem)) if is_the_rows_fault(&problem) => Fate::Refused(Refused {
            code: problem.code.name().to_owned(),
            reason: problem.detail.chars().take(REASON_MAX).collect(),
        }),
        Err(error) => {
            let asked = error.problem().and_then(|problem| problem.retry_after);
            Fate::Left(asked, error.to_string())
        }
    }
}

/// Whether another row might have been taken. What is wrong with the API key, the address, or a proxy in between would
/// otherwise make every row a dead one.
fn is_the_rows_fault(problem: &Problem) -> bool {
    match problem.code {
        Code::QueueNotFound => true,
        Code::Other(_) | Code::CrossSite => false,
        _ => matches!(problem.status, 400 | 409 | 410 | 413 | 422),
    }
}
