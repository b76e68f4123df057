//! Where deliveries that are out belong, for the settle of a worker that does not say.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use semel_core::ids::Token;

use super::Context;

/// How many deliveries are remembered; the oldest are forgotten first. It bounds memory to a few megabytes, and only the spans
/// of settles depend on it.
const MOST: usize = 65_536;

/// The traces of deliveries, by their tokens.
#[derive(Debug, Default)]
pub(super) struct Handed(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    traces: HashMap<Token, Context>,
    /// Oldest first.
    order: VecDeque<Token>,
}

impl Handed {
    pub(super) fn put(&self, token: Token, context: Context) {
        let mut book = self.0.lock().expect("nothing panics while the lock is held");
        if book.order.len() >= MOST
            && let Some(oldest) = book.order.pop_front()
        {
            book.traces.remove(&oldest);
        }
        book.order.push_back(token);
        book.traces.insert(token, context);
    }

    pub(super) fn get(&self, token: Token) -> Option<Context> {
        self.0.lock().expect("nothing panics while the lock is held").traces.get(&token).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let (handed, context) = (Handed::default(), Context::root());
        let token = |n: usize| Token::from_raw(u64::try_from(n).unwrap());
        (0..=MOST).for_each(|n| handed.put(token(n), context));
        assert_eq!((handed.get(token(0)), handed.get(token(1))), (None, Some(context)));
        assert_eq!(handed.get(token(MOST)), Some(context));
    }
}
