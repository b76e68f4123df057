//! The body of a batch: items that are read, checked and answered each for itself.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::problem::Problem;
use super::wire::{self, Object};

/// A batch whose items may be anything.
pub(super) trait Batch: DeserializeOwned {
    /// What an item should be.
    type Item: DeserializeOwned;
    /// The same batch, if every item is one and they are not too many.
    type Readable: DeserializeOwned;
    /// The member that has the items.
    const MEMBER: &str;
    /// What they are called.
    const NOUN: &str;
    /// Most of them.
    const MAX: usize;

    /// Its items.
    fn readable(whole: Self::Readable) -> Vec<Object<Self::Item>>;

    /// The texts of its items.
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::api::wire::AtMost;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Numbers {
        numbers: Option<Vec<Box<RawValue>>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Readable {
        numbers: AtMost<3, Object<Number>>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Number {
        n: u8,
    }

    impl Batch for Numbers {
        type Item = Number;
        type Readable = Readable;
        const MEMBER: &str = "numbers";
        const NOUN: &str = "numbers";
        const MAX: usize = 3;

        fn readable(whole: Readable) -> Vec<Object<Number>> {
            whole.numbers.0
        }

        fn raw(self) -> Vec<Box<RawValue>> {
            self.numbers.unwrap_or_default()
        }
    }

    fn even(Number { n }: Number) -> Checked<u8> {
        if n % 2 == 0 { Ok(n) } else { Err(Problem::field("n", "must be even")) }
    }

    /// Each number, or the words about it.
    fn told(body: &str) -> Result<Vec<Result<u8, String>>, String> {
        let words = |problem: Problem| problem.detail().to_owned();
        let read = read::<Numbers, _>(body.as_bytes(), even).map_err(words)?;
        Ok(read.into_iter().map(|item| item.map_err(words)).collect())
    }

    #[test]
    fn an_item_that_cannot_be_read_spoils_no_other() {
        let all = told(r#"{"numbers": [{"n": 2}, {"n": 3}, {}]}"#).unwrap();
        assert_eq!((&all[0], all[1].is_err(), &all[2]), (&Ok(2), true, &Ok(0)));
        for wrong in [r#"{"n": 256}"#, r#"{"m": 1}"#, "[2]", "2", "null", r#"{"n": 2, "n": 2}"#] {
            let some = told(&format!(r#"{{"numbers": [{{"n": 2}}, {wrong}, {{"n": 3}}]}}"#)).unwrap();
            assert_eq!(some[0], Ok(2), "{wrong}");
            assert!(some[1].is_err(), "{wrong}: {some:?}");
            assert_eq!(some[2], all[1], "{wrong}");
        }
    }

    #[test]
    fn a_batch_that_is_none_is_refused_whole() {
        for (body, words) in [
            (r#"{"numbers": []}"#, "got 0"),
            (r#"{"numbers": [{}, {}, {}, {}]}"#, "got 4"),
            (r#"{"numbers": [1, 2, 3, 4]}"#, "got 4"),
            ("{}", "got 0"),
            (r#"{"numbers": [], "others": 1}"#, "others"),
            (r#"{"numbers": [{}], "numbers": [{}]}"#, "duplicate"),
            ("[[{}]]", "must be a JSON object"),
            ("{", "not valid JSON"),
        ] {
            let refused = told(body).unwrap_err();
            assert!(refused.contains(words), "{body}: {refused}");
        }
    }
}
