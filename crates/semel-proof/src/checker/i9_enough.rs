//! I9: a run in which little happened proves little.

use crate::book::Book;

/// Fewer answered operations than this make a run invalid.
pub(super) const ENOUGH: u64 = 1000;

/// Why the run says nothing, if it does not.
pub(super) fn check(book: &Book) -> Option<String> {
    if let Some(objection) = book.objections().first() {
        return Some(format!("the history contradicts itself: {objection}"));
    }
    (book.oks() < ENOUGH)
        .then(|| format!("only {} operations were answered, {ENOUGH} are needed", book.oks()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::{Verdict, check as judge};
    use crate::history::{Answer, Call, Entry};
    use crate::survey::Survey;

    fn prunes(n: u64) -> Book {
        let mut book = Book::new();
        for op in 0..n {
            book.add(Entry::Invoke { op, at: Default::default(), call: Call::Prune });
            let answer = Answer::Pruned { dropped: 0, stripped: 0 };
            book.add(Entry::Ok { op, at: Default::default(), answer });
        }
        book
    }

    #[test]
    fn a_short_run_is_invalid_and_not_passed() {
        assert_eq!(judge(&prunes(ENOUGH - 1), &Survey::default()).verdict(), Verdict::Invalid);
        assert_eq!(judge(&prunes(ENOUGH), &Survey::default()).verdict(), Verdict::Holds);
    }

    #[test]
    fn an_answer_that_nobody_asked_for_makes_a_run_invalid() {
        let mut book = prunes(ENOUGH);
        book.add(Entry::Fail { op: ENOUGH, why: "stale_lease".into() });
        let report = judge(&book, &Survey::default());
        assert_eq!(report.verdict(), Verdict::Invalid, "{report}");
    }
}
