//! A flight: several calls on one connection that go out together and come back in one round trip.

use futures_util::future::{BoxFuture, join_all};
use tokio_postgres::Row;

use crate::fault::Fault;
use crate::session::{Link, Param, Sql};

/// Calls that are about to go out, in order.
pub(crate) struct Flight<'a> {
    link: &'a Link,
    calls: Vec<BoxFuture<'a, Result<Vec<Row>, Fault>>>,
}

/// The place of a call in its flight, by which its rows are found when the flight has landed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat(usize);

/// The rows of every call of a flight.
#[derive(Debug)]
pub(crate) struct Landed(Vec<Vec<Row>>);

impl<'a> Flight<'a> {
    /// No call yet.
    pub(crate) fn on(link: &'a Link) -> Self {
        Self { link, calls: Vec::new() }
    }

    /// Adds a statement.
    pub(crate) fn query(&mut self, sql: &'static Sql, params: Vec<Param<'a>>) -> Seat {
        let link = self.link;
        self.add(async move { link.query(sql, &params).await })
    }

    /// Adds the beginning of a transaction.
    pub(crate) fn begin(&mut self) {
        let link = self.link;
        self.add(async move { link.begin().await.map(|()| Vec::new()) });
    }

    /// Adds the end of the transaction. Whoever hears that the flight failed must then ask [`Fault::after_commit`].
    pub(crate) fn commit(&mut self) {
        let link = self.link;
        self.add(async move { link.commit().await.map(|()| Vec::new()) });
    }

    fn add(&mut self, call: impl Future<Output = Result<Vec<Row>, Fault>> + Send + 'a) -> Seat {
        self.calls.push(Box::pin(call));
        Seat(self.calls.len() - 1)
    }

    /// Sends all calls and waits for all answers. The first failure is what went wrong: those after it are of a transaction
    /// that was doomed already.
    pub(crate) async fn land(self) -> Result<Landed, Fault> {
        // Each call is sent when it is first polled, and they are polled in order.
        let answers = join_all(self.calls).await;
        answers.into_iter().collect::<Result<_, _>>().map(Landed)
    }
}

impl Landed {
    /// The rows of one call.
    pub(crate) fn rows(&self, seat: Seat) -> &[Row] {
        &self.0[seat.0]
    }

    /// Takes the rows of a call that was perhaps not made.
    pub(crate) fn take(&mut self, seat: Option<Seat>) -> Vec<Row> {
        seat.map(|seat| std::mem::take(&mut self.0[seat.0])).unwrap_or_default()
    }

    /// The rows of a call that was perhaps not made.
    pub(crate) fn rows_of(&self, seat: Option<Seat>) -> &[Row] {
        seat.map_or(&[], |seat| self.rows(seat))
    }
}
