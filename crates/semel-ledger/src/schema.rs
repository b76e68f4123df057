//! Versions of a store's layout.

use crate::{StoreError, StoreErrorKind};

/// The version of a layout as an index into the migrations, unless it is newer than this program.
pub(crate) fn newer(version: i32, known: usize) -> Result<usize, StoreError> {
    usize::try_from(version).ok().filter(|version| *version <= known).ok_or_else(|| {
        let message =
            format!("the ledger is of version {version}, and this program knows up to {known}: update it");
        StoreError::new(StoreErrorKind::Schema, message)
    })
}
