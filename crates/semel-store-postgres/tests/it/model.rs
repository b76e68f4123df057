use semel_store::model::Histories;

use crate::harness::Postgres;

/// How much longer a history takes here than in memory, roughly: each has a database of its own and some hundreds of
/// transactions. So there are fewer of them.
const SLOWER: u32 = 16;

#[test]
fn it_behaves_as_the_memory_store_does() {
    Histories::from_env().one_in(SLOWER).check(Postgres::new);
}
