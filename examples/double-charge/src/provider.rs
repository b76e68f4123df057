//! A service outside, on a socket: the payment provider, and the mail server too. It counts what it did.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::shop::Order;

/// The header of a request that may be sent again.
pub(crate) const KEY: &str = "idempotency-key";

/// What it answers: the effect that there is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) id: String,
}

/// A service that runs until it is dropped.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    books: Arc<Mutex<Books>>,
    serving: JoinHandle<std::io::Result<()>>,
}

#[derive(Debug, Default)]
struct Books {
    /// Whether it remembers keys.
    knows_keys: bool,
    requests: u32,
    /// The order of each effect.
    effects: Vec<u32>,
    by_key: HashMap<String, Receipt>,
}

impl Books {
    /// Does it, unless this key has been here before.
    fn request(&mut self, order: Order, key: Option<&str>) -> Receipt {
        self.requests += 1;
        let key = key.filter(|_| self.knows_keys);
        if let Some(first) = key.and_then(|key| self.by_key.get(key)) {
            return first.clone();
        }
        self.effects.push(order.order);
        let receipt = Receipt { id: format!("ch_{}", self.effects.len()) };
        if let Some(key) = key {
            self.by_key.insert(key.to_owned(), receipt.clone());
        }
        receipt
    }
}

impl Provider {
    pub(crate) async fn start(knows_keys: bool) -> Result<Self, Failure> {
        let books = Arc::new(Mutex::new(Books { knows_keys, ..Books::default() }));
        let router = Router::new().route("/", post(answer)).with_state(books.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Failure::io("listen"))?;
        let address = listener.local_addr().map_err(Failure::io("ask for an address"))?;
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, books, serving })
    }

    /// How often it was done for an order.
    pub(crate) fn effects(&self, order: u32) -> u32 {
        let times = open(&self.books).effects.iter().filter(|done| **done == order).count();
        u32::try_from(times).unwrap_or(u32::MAX)
    }

    /// How often it was asked.
    pub(crate) fn requests(&self) -> u32 {
        open(&self.books).requests
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    State(books): State<Arc<Mutex<Books>>>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Json<Receipt> {
    let key = headers.get(KEY).and_then(|key| key.to_str().ok());
    Json(open(&books).request(order, key))
}

fn open(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_only_with_a_service_that_knows_keys() {
        let order = Order::numbered(1);
        let mut knowing = Books { knows_keys: true, ..Books::default() };
        let mut ignorant = Books::default();
        for books in [&mut knowing, &mut ignorant] {
            books.request(order, Some("k"));
            books.request(order, Some("k"));
            books.request(order, None);
        }
        assert_eq!((knowing.effects.len(), knowing.requests), (2, 3));
        assert_eq!((ignorant.effects.len(), ignorant.requests), (3, 3));
    }
}
