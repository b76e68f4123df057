use crate::harness::Embedded;

#[test]
fn it_behaves_as_the_memory_store_does() {
    semel_store::model::check_against_memory(Embedded::new);
}

#[test]
fn it_behaves_as_the_memory_store_does_when_everything_is_tiny() {
    semel_store::model::check_against_memory(Embedded::tiny);
}
