//! The statement behind a listing: where to look for jobs, and which of those that are there to take.
//!
//! | filter | where it looks |
//! |---|---|
//! | key | the key's own row, or its row of every queue |
//! | dead, cancelled | the index of those, for one queue or queue by queue |
//! | processing, awaiting ack | the leases that are out |
//! | group | the group's index |
//! | pending | unfinished jobs, newest first |
//! | completed | finished jobs, newest first |
//! | none of these | jobs, newest first |
//!
//! However few match, one statement looks at [`LOOK_MAX`] rows at most; what is left is the next page's.

use semel_core::ids::JobId;
use semel_core::lifecycle::State;
use semel_store::JobQuery;
use tokio_postgres::types::{ToSql, Type};

use crate::row::{sql_count, sql_id, sql_state, sql_time};
use crate::session::Param;

/// Rows one statement looks at: some tens of milliseconds of work, then it hands out a cursor.
const LOOK_MAX: u32 = 10_000;
/// The same where every row brings something along, or is found in every queue anew.
const LOOK_FEW: u32 = 1_000;

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    /// Dead or cancelled jobs.
    Odd(State),
    /// Leases that are out, received or not.
    Leased {
        received: bool,
    },
    Group,
    Live,
    Done,
    Job,
}

impl Place {
    /// Where the jobs asked for are fewest.
    fn of(query: &JobQuery) -> Self {
        match query.state {
            _ if query.key.is_some() => Self::Key,
            Some(odd @ (State::Dead | State::Cancelled)) => Self::Odd(odd),
            Some(State::Processing) => Self::Leased { received: false },
            Some(State::AwaitingAck) => Self::Leased { received: true },
            _ if query.group.is_some() => Self::Group,
            Some(State::Pending) => Self::Live,
            Some(State::Completed) => Self::Done,
            None => Self::Job,
        }
    }

    /// Whether only jobs of the queue asked for are found there.
    fn knows_queue(self) -> bool {
        matches!(self, Self::Key | Self::Odd(_))
    }

    /// Whether only jobs in the state asked for are found there.
    fn knows_state(self) -> bool {
        matches!(self, Self::Odd(_) | Self::Leased { .. })
    }

    /// How many rows to look at there. Where all that is found matches, one more than wanted tells whether there is a next
    /// page, and more would tell nothing.
    fn look(self, query: &JobQuery) -> u32 {
        let by_spec = query.from.is_some() || query.to.is_some() || !query.metadata.is_empty();
        let sifts = by_spec
            || query.duplicated.is_some()
            || (query.queue.is_some() && !self.knows_queue())
            || (query.state.is_some() && !self.knows_state())
            || (query.group.is_some() && self != Self::Group);
        if !sifts {
            query.limit.saturating_add(1)
        } else if !query.metadata.is_empty() || (query.queue.is_none() && matches!(self, Self::Odd(_))) {
            LOOK_FEW
        } else {
            LOOK_MAX
        }
    }
}

/// A statement and what goes into it.
pub(super) struct Plan {
    pub(super) text: String,
    /// How many rows it looks at.
    pub(super) look: u32,
    params: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Plan {
    /// The plan for a query. Its one row is: how many rows were looked at, the lowest id among them, the ids of those that
    /// match, newest first, and their metadata if that is still to be compared.
    pub(super) fn of(query: &JobQuery) -> Self {
        let place = Place::of(query);
        let look = place.look(query);
        let mut plan = Self { text: String::new(), look, params: Vec::new() };
        let source = plan.source(query, place);
        let found = plan.found(query, place);
        // Where metadata is still to be compared, any of them may be needed.
        let take = if query.metadata.is_empty() { query.limit.saturating_add(1).min(look) } else { look };
        plan.text = format!(
            "WITH look AS ({source} ORDER BY id DESC LIMIT {look}),
                  found AS ({found} ORDER BY look.id DESC LIMIT {take})
             SELECT (SELECT count(*) FROM look), (SELECT min(id) FROM look),
                    (SELECT array_agg(id ORDER BY id DESC) FROM found),
                    (SELECT array_agg(metadata ORDER BY id DESC) FROM found)"
        );
        plan
    }

    /// What goes into the statement, in order.
    pub(super) fn params(&self) -> Vec<(Param<'_>, Type)> {
        self.params.iter().map(|(value, of)| (value.as_ref() as Param<'_>, of.clone())).collect()
    }

    /// Gives a value a place in the statement.
    fn bind(&mut self, value: impl ToSql + Sync + Send + 'static, of: Type) -> String {
        self.params.push((Box::new(value), of));
        format!("${}", self.params.len())
    }

    /// The rows to look at. A filter is applied here only where an index finds what it lets through: a row that is passed
    /// over here is not counted, so nothing would bound how many are.
    fn source(&mut self, query: &JobQuery, place: Place) -> String {
        let range = self.range(query, if place == Place::Key { "kept.id" } else { "id" });
        match place {
            Place::Key => self.of_key(query, &range),
            Place::Odd(state) => self.of_odd(query, state, &range),
            Place::Leased { received } => {
                let which = if received { "received" } else { "NOT received" };
                format!("SELECT id, queue FROM semel.live WHERE token IS NOT NULL AND {which} AND {range}")
            }
            Place::Group => {
                let group = self.bind(query.group.as_ref().map(ToString::to_string), Type::TEXT);
                format!("SELECT id, queue FROM semel.job WHERE grp = {group} AND {range}")
            }
            Place::Live => format!("SELECT id, queue FROM semel.live WHERE {range}"),
            Place::Done => format!("SELECT id, queue FROM semel.done WHERE {range}"),
            Place::Job => format!("SELECT id, queue FROM semel.job WHERE {range}"),
        }
    }

    /// The kept jobs of a key, in one queue or in all.
    fn of_key(&mut self, query: &JobQuery, range: &str) -> String {
        let key = self.bind(query.key.as_ref().map(ToString::to_string), Type::TEXT);
        let queue = query.queue.as_ref().map(|_| format!(" AND q.id = {}", self.queue(query)));
        format!(
            "SELECT kept.id, k.queue
             FROM semel.queue AS q JOIN semel.key AS k ON k.queue = q.id AND k.key = {key},
                  LATERAL (SELECT unnest(k.ids)
                           UNION ALL
                           SELECT p.id FROM semel.key_past AS p WHERE p.queue = k.queue AND p.key = k.key
                          ) AS kept (id)
             WHERE {range}{}",
            queue.unwrap_or_default()
        )
    }

    /// Dead letters or cancelled jobs: of one queue, or of each.
    fn of_odd(&mut self, query: &JobQuery, state: State, range: &str) -> String {
        let (state, look) = (sql_state(state), self.look);
        if query.queue.is_some() {
            let queue = self.queue(query);
            return format!(
                "SELECT id, queue FROM semel.done WHERE state = {state} AND queue = {queue} AND {range}"
            );
        }
        format!(
            "SELECT ended.id, q.id AS queue
             FROM semel.queue AS q,
                  LATERAL (SELECT id FROM semel.done
                           WHERE state = {state} AND queue = q.id AND {range}
                           ORDER BY id DESC LIMIT {look}) AS ended"
        )
    }

    /// The ids that come into question. An id is never older than its job, so the time from which to look bounds it from
    /// below; from above it does not, because a generator of ids may run ahead of the clock.
    fn range(&mut self, query: &JobQuery, id: &str) -> String {
        let below = self.bind(query.cursor.map_or(i64::MAX, |cursor| sql_id(cursor.below)), Type::INT8);
        let first = query.from.map_or(JobId::ZERO, JobId::first_at);
        let first = self.bind(sql_id(first), Type::INT8);
        format!("{id} < {below} AND {id} >= {first}")
    }

    /// Those among them that match, as far as the database can tell.
    fn found(&mut self, query: &JobQuery, place: Place) -> String {
        let mut conditions = vec!["true".to_owned()];
        if query.queue.is_some() && !place.knows_queue() {
            conditions.push(format!("look.queue = {}", self.queue(query)));
        }
        conditions.extend(query.state.filter(|_| !place.knows_state()).map(state_is));
        let spec = self.of_spec(query, place);
        let metadata = if query.metadata.is_empty() { "NULL::text" } else { "j.metadata" };
        let mut tables = String::from("look");
        if !(spec.is_empty() && query.metadata.is_empty()) {
            tables.push_str(" JOIN semel.job AS j ON j.id = look.id");
        }
        if let Some(duplicated) = self.of_duplicates(query) {
            tables.push_str(
                " LEFT JOIN semel.trace AS t ON t.job = look.id
                  LEFT JOIN semel.live AS l ON l.id = look.id
                  LEFT JOIN semel.done AS d ON d.id = look.id",
            );
            conditions.push(duplicated);
        }
        conditions.extend(spec);
        let conditions = conditions.join(" AND ");
        format!("SELECT look.id, {metadata} AS metadata FROM {tables} WHERE {conditions}")
    }

    /// The number of the queue that has the name now.
    fn queue(&mut self, query: &JobQuery) -> String {
        let name = self.bind(query.queue.as_ref().map(ToString::to_string), Type::TEXT);
        format!("(SELECT id FROM semel.queue WHERE name = {name} AND NOT deleted)")
    }

    fn of_spec(&mut self, query: &JobQuery, place: Place) -> Vec<String> {
        let mut conditions = Vec::new();
        if let Some(group) = query.group.as_ref().filter(|_| place != Place::Group) {
            conditions.push(format!("j.grp = {}", self.bind(group.to_string(), Type::TEXT)));
        }
        if let Some(from) = query.from {
            conditions.push(format!("j.created_at >= {}", self.bind(sql_time(from), Type::INT8)));
        }
        if let Some(to) = query.to {
            conditions.push(format!("j.created_at < {}", self.bind(sql_time(to), Type::INT8)));
        }
        conditions
    }

    /// A wide net: whether a history shows enough replayed effects is counted when it is read.
    fn of_duplicates(&mut self, query: &JobQuery) -> Option<String> {
        let limit = self.bind(sql_count(query.duplicated?), Type::INT4);
        let replayed = "LIKE '%\"replayed\"%'";
        Some(format!(
            "(coalesce(t.duplicates, 0) >= {limit} OR l.progress {replayed} OR d.progress {replayed})"
        ))
    }
}

/// That a job is in a state, where the place it was found says nothing of that.
fn state_is(state: State) -> String {
    let live = |which: &str| format!("EXISTS (SELECT FROM semel.live AS s WHERE s.id = look.id AND {which})");
    match state {
        State::Pending => live("s.token IS NULL"),
        State::Processing => live("s.token IS NOT NULL AND NOT s.received"),
        State::AwaitingAck => live("s.token IS NOT NULL AND s.received"),
        ended => {
            let code = sql_state(ended);
            format!("EXISTS (SELECT FROM semel.done AS s WHERE s.id = look.id AND s.state = {code})")
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_core::key::Key;
    use semel_core::name::{Group, QueueName};
    use semel_core::time::Timestamp;
    use semel_store::Cursor;

    use super::*;
    use crate::connect::Pool;
    use crate::options::Options;
    use crate::scratch;

    /// Every query that can be asked, as far as which filters it has goes.
    fn queries() -> Vec<JobQuery> {
        let states = [None].into_iter().chain(State::ALL.map(Some));
        let filters = |state: Option<State>| (0..128u32).map(move |bits| (state, bits));
        states.flat_map(filters).map(|(state, bits)| query(state, |bit| bits & (1 << bit) != 0)).collect()
    }

    fn query(state: Option<State>, has: impl Fn(u32) -> bool) -> JobQuery {
        let time = Timestamp::from_millis(1_800_000_000_000);
        JobQuery {
            state,
            queue: has(0).then(|| QueueName::try_from("q").unwrap()),
            key: has(1).then(|| Key::try_from("k").unwrap()),
            group: has(2).then(|| Group::try_from("g").unwrap()),
            metadata: if has(3) { vec![("a".into(), "b".into())] } else { Vec::new() },
            from: has(4).then_some(time),
            to: has(5).then_some(time),
            duplicated: has(6).then_some(2),
            cursor: has(0).then_some(Cursor { below: JobId::first_at(time) }),
            ..JobQuery::default()
        }
    }

    #[test]
    fn every_combination_of_filters_makes_a_statement_that_finds_nothing_in_an_empty_store() {
        let database = scratch::database();
        scratch::runtime().block_on(async {
            let pool = Pool::new(database.url(), &Options::default()).unwrap();
            let session = pool.session().await.unwrap();
            for query in queries() {
                let plan = Plan::of(&query);
                let rows = session.query_text(&plan.text, &plan.params()).await;
                let rows = rows.unwrap_or_else(|e| panic!("{e}\n{query:?}\n{}", plan.text));
                assert_eq!((rows.len(), rows[0].get::<_, i64>(0)), (1, 0), "{query:?}");
            }
        });
    }
}
