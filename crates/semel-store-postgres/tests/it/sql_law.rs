//! The law and the model, through the SQL functions: they follow the same rules as the store, or these tests fail.

use semel_store::model::Histories;

use crate::sql_harness::Sql;

semel_store::conformance!(Sql::new);

/// Fewest histories. Each is a database of its own and some hundreds of round trips, so there is one for twenty that are asked
/// for: they are counted for a store without either.
const CASES: u32 = 24;

#[test]
fn publishing_and_completing_by_sql_behave_as_the_memory_store_does() {
    let mut histories = Histories::from_env();
    histories.cases = (histories.cases / 20).max(CASES);
    histories.check(Sql::new);
}
