//! The body of a batch: items that are read, checked and answered each for itself.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::problem::Problem;
use super::wire::{self, Object};

/// A batch whose items may be anything.
pub(super) trait Batch: DeserializeOwned {
    /// What an item should be.
    type Item: DeserializeOwned;
    /// The same batch, if every item is one.
    type Readable: DeserializeOwned;
    /// The member that has the items.
    const MEMBER: &str;
    /// What they are called.
    const NOUN: &str;
    /// Most of them.
    const MAX: usize;

    fn readable(whole: Self::Readable) -> Vec<Object<Self::Item>>;

    fn raw(self) -> Vec<Box<RawValue>>;
}

/// An item, as its check made it, or what is wrong with it.
pub(super) type Checked<T> = Result<T, Problem>;

/// Reads a batch and checks its items. If every item can be read, they are read at once; if not, each is read for itself, so
/// that one that is wrong spoils no other.
pub(super) fn read<B: Batch, T>(
    body: &[u8],
    check: impl Fn(B::Item) -> Checked<T>,
) -> Result<Vec<Checked<T>>, Problem> {
    if let Ok(Object(whole)) = serde_json::from_slice(body) {
        let items = B::readable(whole);
        right_count::<B>(items.len())?;
        return Ok(items.into_iter().map(|Object(item)| check(item)).collect());
    }
    let items = wire::read::<B>(body)?.raw();
    right_count::<B>(items.len())?;
    Ok(items.iter().map(|item| wire::read_checked(item.get().as_bytes(), &check)).collect())
}

fn right_count<B: Batch>(count: usize) -> Result<(), Problem> {
    if (1..=B::MAX).contains(&count) {
        return Ok(());
    }
    Err(Problem::field(B::MEMBER, format!("must be 1 to {} {}, got {count}", B::MAX, B::NOUN)))
}
