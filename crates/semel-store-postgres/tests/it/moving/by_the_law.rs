//! A store that is moved is a store that was killed and opened again, as far as the law goes: so the suite and the model say
//! what must be the same afterwards, and how it goes on from there.

use std::sync::Arc;

use async_trait::async_trait;
use semel_cluster::Database;
use semel_core::time::Millis;
use semel_store::conformance::{Harness, all_cases, run_case};
use semel_store::model::Histories;
use semel_store::{ManualClock, Store};
use semel_store_embedded::EmbeddedStore;
use semel_store_postgres::PostgresStore;
use tempfile::TempDir;

use super::world::{START, embedded, moved};
use crate::harness::{connect, database, options};

/// How much longer a history takes here than in memory, roughly: each has a directory and a database of its own.
const SLOWER: u32 = 32;

/// A store that is embedded until it crashes for the first time, and then goes on in PostgreSQL.
struct Moving {
    clock: Arc<ManualClock>,
    now: Now,
    database: Database<'static>,
    dir: TempDir,
}

enum Now {
    Embedded(Arc<EmbeddedStore>),
    Postgres(Arc<PostgresStore>),
}

impl Moving {
    fn new() -> Self {
        let (dir, database) = (tempfile::tempdir().unwrap(), database());
        let clock = Arc::new(ManualClock::at(START));
        let now = Now::Embedded(Arc::new(embedded(dir.path(), &clock)));
        Self { clock, now, database, dir }
    }
}

#[async_trait]
impl Harness for Moving {
    fn store(&self) -> Arc<dyn Store> {
        match &self.now {
            Now::Embedded(store) => store.clone(),
            Now::Postgres(store) => store.clone(),
        }
    }

    fn advance(&self, span: Millis) {
        self.clock.advance(span);
    }

    async fn crash(&mut self) {
        let url = self.database.url();
        match &self.now {
            Now::Embedded(store) => {
                store.abandon();
                moved(self.dir.path(), url).await;
            }
            Now::Postgres(store) => {
                store.abandon();
                connect(url).await.execute("DELETE FROM semel.node", &[]).await.unwrap();
            }
        }
        let store = PostgresStore::open(url, options(&self.clock)).await.expect("the store opens");
        store
            .forget_deliveries()
            .await
            .expect("there is nothing to forget, or leases of a node that is gone");
        self.now = Now::Postgres(Arc::new(store));
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        if let Now::Postgres(store) = &self.now {
            store.abandon();
        }
    }
}

#[test]
fn a_moved_store_goes_on_as_the_memory_store_does_after_a_crash() {
    Histories::from_env().one_in(SLOWER).check(Moving::new);
}

/// Every case ends with a crash, which is a move here. These are the subjects with something to lose in it.
#[test]
fn what_the_suite_leaves_behind_is_the_same_after_a_move() {
    let subjects = ["crash_reopen::", "groups_and_order::"];
    let cases = all_cases().into_iter().map(|(name, _)| name);
    let chosen: Vec<_> =
        cases.filter(|name| subjects.iter().any(|subject| name.starts_with(subject))).collect();
    assert!(chosen.len() > 20, "{chosen:?}");
    for name in chosen {
        run_case(name, Moving::new()).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}
