use crate::harness::Postgres;

semel_store::conformance!(Postgres::new);
