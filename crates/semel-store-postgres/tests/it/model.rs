use semel_store::model::Histories;

use crate::harness::Postgres;

/// Histories that are run if the environment does not say how many. Each is a database of its own and some hundreds of
/// transactions, so these are fewer than for a store in memory.
const CASES: u32 = 24;

#[test]
fn it_behaves_as_the_memory_store_does() {
    let mut histories = Histories::from_env();
    if std::env::var_os("SEMEL_MODEL_CASES").is_none() {
        histories.cases = CASES;
    }
    histories.check(Postgres::new);
}
