//! The law sees the SQL functions: where one of them is broken, a case says so.

use semel_store::conformance::run_case;

use crate::sql_harness::Sql;

/// Functions that do not do what they should, and the case that must find out.
const FLAWS: &[(&str, &str, &str)] = &[
    (
        "any payload is the same",
        "CREATE OR REPLACE FUNCTION semel.collides(holder semel.holder, payload text, ignored text[]) RETURNS text
         LANGUAGE sql AS $$ SELECT NULL::text $$",
        "collision::another_payload_is_refused_where_the_queue_says_so",
    ),
    (
        "a key is never found",
        "CREATE OR REPLACE FUNCTION semel.find_holder(job bigint) RETURNS semel.holder
         LANGUAGE sql AS $$ SELECT NULL::semel.holder $$",
        "keys::the_second_publish_gets_the_first_job",
    ),
    (
        "a line never moves up",
        "CREATE OR REPLACE FUNCTION semel.open_line(queue integer, grp text, most bigint) RETURNS boolean
         LANGUAGE sql AS $$ SELECT false $$",
        "groups_and_order::groups_do_not_wait_for_each_other",
    ),
    (
        "a gate learns nothing",
        "CREATE OR REPLACE FUNCTION semel.gate_after_success(gate jsonb, job bigint, has_breaker boolean) RETURNS jsonb
         LANGUAGE sql AS $$ SELECT gate $$",
        "defer_and_hold::a_probe_that_works_opens_the_queue",
    ),
    (
        "the story of a job is not told",
        "CREATE OR REPLACE FUNCTION semel.story_of_success(held semel.live, now bigint, took bigint, result text, effect json) RETURNS text
         LANGUAGE sql AS $$ SELECT ''::text $$",
        "fencing::a_repeated_settle_is_recognised",
    ),
    (
        "every key fits",
        "CREATE OR REPLACE FUNCTION semel.check_key(key text, pattern text) RETURNS void LANGUAGE sql AS $$ SELECT $$",
        "publish::a_key_looks_as_the_queue_wants_it",
    ),
];

#[test]
fn a_broken_function_breaks_the_law() {
    for (flaw, sql, case) in FLAWS {
        assert!(run_case(case, Sql::with(sql)).is_err(), "{case} passes though {flaw}");
    }
}
