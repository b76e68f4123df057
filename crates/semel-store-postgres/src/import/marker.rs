//! The row of `semel.move`: which store is being moved here, and how far that has come.

use semel_core::ids::JobId;
use semel_store::StoreError;
use semel_store::transfer::Origin;
use tokio_postgres::types::Type;

use crate::fault::Fault;
use crate::row::{Cells, job_id};
use crate::session::{Link, Sql};

/// How far a move into this database has come.
#[derive(Debug)]
pub(crate) struct Marker {
    origin: Origin,
    /// Jobs up to this id are through.
    pub(super) place: JobId,
    began_at: String,
    /// When everything was through and compared.
    pub(super) finished_at: Option<String>,
}

/// A look into the catalogue: the database may have no schema yet, or one from before there were moves.
static MADE: Sql = Sql { text: "SELECT to_regclass('semel.move') IS NOT NULL", types: &[] };

static READ: Sql = Sql {
    text:
        "SELECT source, store, state, place, to_char(began_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI UTC'),
                  to_char(finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI UTC')
             FROM semel.move",
    types: &[],
};

static BEGIN: Sql = Sql {
    text: "INSERT INTO semel.move (source, store, state, place) VALUES ($1, $2, $3, 0)",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Goes on from one place to another, if it still stands at the first.
pub(super) static STEP: Sql = Sql {
    text: "UPDATE semel.move SET place = $2 WHERE place = $1 AND finished_at IS NULL RETURNING place",
    types: &[Type::INT8, Type::INT8],
};

/// Shows the queues, and says that everything is there.
pub(super) static FINISH: Sql = Sql {
    text: "WITH shown AS (UPDATE semel.queue SET deleted = false WHERE id = ANY ($1))
           UPDATE semel.move SET finished_at = now() WHERE finished_at IS NULL",
    types: &[Type::INT4_ARRAY],
};

impl Marker {
    /// The row, if there is one.
    pub(crate) async fn read(link: &Link) -> Result<Option<Self>, Fault> {
        let made: bool = Cells::of(&link.query_one(&MADE, &[]).await?).take()?;
        if !made {
            return Ok(None);
        }
        let Some(row) = link.query_opt(&READ, &[]).await? else { return Ok(None) };
        let mut cells = Cells::of(&row);
        let origin = Origin { place: cells.take()?, store: cells.take()?, state: cells.take()? };
        let place = job_id(cells.take()?)?;
        Ok(Some(Self { origin, place, began_at: cells.take()?, finished_at: cells.take()? }))
    }

    /// Writes the row of a move that begins.
    pub(super) async fn put(link: &Link, origin: &Origin) -> Result<(), Fault> {
        let Origin { place, store, state } = origin;
        link.execute(&BEGIN, &[place, store, state]).await.map(drop)
    }

    /// Refuses to go on with a move of another store, or of the same one in another state.
    pub(super) fn require(&self, origin: &Origin) -> Result<(), StoreError> {
        let Self { origin: Origin { place, .. }, began_at, .. } = self;
        let begun = format!("a move from {place} into this database was begun on {began_at}");
        if self.origin.store != origin.store {
            return Err(StoreError::Open(format!(
                "{begun}, and {} is another store: go on from where it began, or give an empty database",
                origin.place
            )));
        }
        if self.origin.state != origin.state {
            return Err(StoreError::Open(format!(
                "{begun}, and the store has been in use since, so that what is through is not what it was: take the \
                 schema away (DROP SCHEMA semel CASCADE) and move it again"
            )));
        }
        Ok(())
    }

    /// Why no node may join, if the move is not finished.
    pub(crate) fn refusal(&self) -> Option<String> {
        let Self { origin: Origin { place, .. }, began_at, finished_at, .. } = self;
        let text = || {
            format!(
                "a move from {place} into this database was begun on {began_at} and is not finished: finish it with \
                 `semel move --from {place} --to ...`, or take the schema away (DROP SCHEMA semel CASCADE) to start \
                 with nothing"
            )
        };
        finished_at.is_none().then(text)
    }
}
