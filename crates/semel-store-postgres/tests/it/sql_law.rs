//! The law and the model, through the SQL functions: they follow the same rules as the store, or these tests fail.

use semel_store::model::Histories;

use crate::sql_harness::Sql;

semel_store::conformance!(Sql::new);

/// Histories that are run if the environment does not say how many.
const CASES: u32 = 24;

#[test]
fn publishing_and_completing_by_sql_behave_as_the_memory_store_does() {
    let mut histories = Histories::from_env();
    if std::env::var_os("SEMEL_MODEL_CASES").is_none() {
        histories.cases = CASES;
    }
    histories.check(Sql::new);
}
