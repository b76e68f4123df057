use crate::harness::Embedded;

semel_store::conformance!(Embedded::new);

mod tiny {
    use crate::harness::Embedded;

    semel_store::conformance!(Embedded::tiny);
}
