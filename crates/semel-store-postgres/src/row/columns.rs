//! Columns on their way in, as arrays, and out, as the cells of a row.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::fault::Fault;

/// Reads the cells of a row from left to right, so that the list of columns in a statement is the only place that numbers
/// them.
#[derive(Debug)]
pub(crate) struct Cells<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Cells<'a> {
    /// Stands before the first cell.
    pub(crate) fn of(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    /// The next cell.
    pub(crate) fn take<T: FromSql<'a>>(&mut self) -> Result<T, Fault> {
        let at = self.next;
        self.next += 1;
        self.row.try_get(at).map_err(|e| Fault::Broken(format!("a statement gave other columns: {e}")))
    }
}

/// Makes a struct of arrays, one per column, for one `unnest`.
///
/// `params` gives the arrays in the order of the declaration, `TYPES` their types.
macro_rules! columns {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $of:ty => $array:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $(pub(crate) $column: Vec<$of>,)*
        }

        impl $name {
            /// The types of the arrays.
            pub(crate) const TYPES: &'static [tokio_postgres::types::Type] =
                &[$(tokio_postgres::types::Type::$array,)*];

            /// The arrays.
            pub(crate) fn params(&self) -> Vec<&(dyn tokio_postgres::types::ToSql + Sync)> {
                vec![$(&self.$column,)*]
            }
        }
    };
}

pub(crate) use columns;
