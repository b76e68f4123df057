//! The heartbeat: one statement by which a node is seen, keeps its roles, and hears who else is there.

use semel_core::name::QueueName;
use semel_core::time::Millis;
use semel_store::StoreError;
use semel_store::shared::{Beat, NODE_LOST, NodeId, ROLE_SPAN};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{CHANNEL, list, note};
use crate::clock::database_now;
use crate::fault::Fault;
use crate::join;
use crate::row::Cells;
use crate::session::{Session, Sql};
use crate::store::PostgresStore;

/// How long the number of a node that died is not given to another. One that was only stopped and goes on finds its place
/// again; afterwards it has to join anew, and ids it made meanwhile must not meet those of whoever has its number.
const FORGOTTEN: Millis = Millis::from_secs(600);

/// Roles are taken in the order of their names, so that nodes which ask for several at once do not wait for each other in a
/// circle. The note comes back to this node, too, which shows that it hears.
static BEAT: Sql = Sql {
    text: concat!(
        "WITH clock AS MATERIALIZED (SELECT coalesce($3, ",
        database_now!(),
        ") AS now),
         seen AS (
             UPDATE semel.node n
                SET seen_at = clock.now, lost = false
               FROM clock
              WHERE n.id = $1 AND n.started_at = $2
             RETURNING n.id
         ),
         forgotten AS (
             DELETE FROM semel.node n
              USING clock
              WHERE n.lost AND n.id <> $1 AND n.seen_at <= clock.now - $4
         ),
         held AS (
             INSERT INTO semel.role AS r (name, node, until)
             SELECT wanted.name, seen.id, clock.now + $5
               FROM seen, clock, unnest($6) AS wanted (name)
              WHERE NOT EXISTS (SELECT FROM semel.role o
                                 WHERE o.name = wanted.name AND o.node <> seen.id AND o.until > clock.now)
              ORDER BY wanted.name
             ON CONFLICT (name) DO UPDATE
                SET node = excluded.node, until = excluded.until
              WHERE r.node = excluded.node OR r.until <= excluded.until - $5
             RETURNING r.name
         ),
         told AS (SELECT pg_notify($7, $8))
         SELECT clock.now,
                EXISTS (SELECT FROM seen),
                ARRAY (SELECT name FROM held),
                (SELECT count(*) FROM semel.node n WHERE n.id <> $1 AND n.seen_at > clock.now - $9),
                ARRAY (SELECT n.id
                         FROM semel.node n
                        WHERE n.id <> $1 AND NOT n.lost AND n.seen_at <= clock.now - $9
                        ORDER BY n.id),
                (SELECT count(*) FROM told)
           FROM clock"
    ),
    types: &[
        Type::INT4,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::TEXT_ARRAY,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
    ],
};

static LEAVE_ROLES: Sql = Sql { text: "DELETE FROM semel.role WHERE node = $1", types: &[Type::INT4] };

/// Says that a dead node has nothing out any more, unless it was seen after all.
static BURY: Sql = Sql {
    text: concat!(
        "UPDATE semel.node SET lost = true WHERE id = $1 AND seen_at <= coalesce($2, ",
        database_now!(),
        ") - $3"
    ),
    types: &[Type::INT4, Type::INT8, Type::INT8],
};

/// What a heartbeat brought.
struct Answer {
    /// Whether this node is still on the list.
    seen: bool,
    beat: Beat,
}

impl PostgresStore {
    /// Says that this node is up. One that was struck off, because it was away for long, joins again.
    pub(super) async fn be_seen(&self, roles: &[&'static str]) -> Result<Beat, StoreError> {
        let beaten = async {
            let session = self.pool.session().await?;
            if !self.options.prepare {
                self.pool.greet_again(&session).await?;
            }
            let answer = self.send_beat(&session, roles).await?;
            if answer.seen {
                return Ok(answer.beat);
            }
            let place = join::again(&session, &self.clock, &self.options).await?;
            tracing::warn!(
                old = self.node(),
                new = place.node,
                "this node was taken to be dead and has joined again under another number"
            );
            self.move_to(place);
            Ok(self.send_beat(&session, roles).await?.beat)
        };
        beaten.await.map_err(|fault: Fault| fault.nothing_done())
    }

    async fn send_beat(&self, session: &Session, roles: &[&'static str]) -> Result<Answer, Fault> {
        let (node, joined_at) = self.seat.get();
        let own = note::own(node);
        let row = session
            .query_one(
                &BEAT,
                &[
                    &node,
                    &joined_at,
                    &self.clock.instead(),
                    &span(FORGOTTEN),
                    &span(ROLE_SPAN),
                    &roles,
                    &CHANNEL,
                    &own,
                    &span(NODE_LOST),
                ],
            )
            .await?;
        self.read_beat(&row, roles)
    }

    fn read_beat(&self, row: &Row, roles: &[&'static str]) -> Result<Answer, Fault> {
        let mut cells = Cells::of(row);
        self.clock.decides(cells.take()?);
        let seen = cells.take()?;
        let granted: Vec<&str> = cells.take()?;
        let others: i64 = cells.take()?;
        let lost: Vec<i32> = cells.take()?;
        let beat = Beat {
            others: usize::try_from(others).unwrap_or(0),
            lost: lost.into_iter().map(list::node_id).collect(),
            held: roles.iter().copied().filter(|role| granted.contains(role)).collect(),
        };
        Ok(Answer { seen, beat })
    }

    /// Gives up every role at once.
    pub(super) async fn give_up_roles(&self) -> Result<(), StoreError> {
        let left = async { self.pool.session().await?.execute(&LEAVE_ROLES, &[&self.node()]).await };
        left.await.map(drop).map_err(|fault: Fault| fault.after_commit())
    }

    /// Takes back what a dead node had out. Only then it is marked as done with: whoever dies half way leaves the rest to the
    /// next.
    pub(super) async fn bury(&self, node: NodeId) -> Result<Vec<QueueName>, StoreError> {
        let node = i32::from(node.0);
        let queues = self.take_back_from(node).await?;
        let buried = async {
            let session = self.pool.session().await?;
            session.execute(&BURY, &[&node, &self.clock.instead(), &span(NODE_LOST)]).await
        };
        buried.await.map_err(|fault: Fault| fault.after_commit())?;
        Ok(queues)
    }
}

fn span(span: Millis) -> i64 {
    i64::try_from(span.millis()).unwrap_or(i64::MAX)
}
