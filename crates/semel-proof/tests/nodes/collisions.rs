//! Transactions that run into each other (fault 28): the database answers 40001, 40P01 and 55P03, in the middle of a
//! transaction and at its COMMIT, and there are real deadlocks with somebody who locks in another order. All of it is tried
//! again.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use semel_cluster::{Cluster, sql_at};
use semel_proof::settings;

use crate::kit::pause::{Sign, pass};
use crate::stage::{DATABASE, Stage};

/// One statement in thirty, and one commit in fifty, is answered with an error that says: try again. A transaction each: together
/// they would hold one table while they wait for the other, which nodes at work use in the other order.
const STUMBLE: [&str; 3] = [
    "CREATE FUNCTION public.stumble() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF random() < tg_argv[0]::float THEN
            RAISE EXCEPTION 'stumbled on purpose'
                  USING ERRCODE = (ARRAY['40001', '40P01', '55P03'])[1 + floor(random() * 3)::int];
        END IF;
        RETURN NULL;
    END $$",
    "CREATE TRIGGER stumble AFTER INSERT OR UPDATE OR DELETE ON semel.live
        FOR EACH STATEMENT EXECUTE FUNCTION public.stumble(0.03)",
    "CREATE CONSTRAINT TRIGGER stumble_at_commit AFTER INSERT ON semel.tally
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.stumble(0.02)",
];

/// No more of it.
const WALK: &str = "
    CREATE OR REPLACE FUNCTION public.stumble() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'";

/// Locks jobs from the newest to the oldest, where nodes go from the oldest to the newest.
const LOCK_BACKWARDS: &str = "
    DO $$
    DECLARE found bigint;
    BEGIN
        FOR found IN SELECT id FROM semel.live ORDER BY id DESC LIMIT 40 LOOP
            PERFORM FROM semel.live WHERE id = found FOR UPDATE;
            PERFORM pg_sleep(0.001);
        END LOOP;
    END $$";

#[test]
fn heavy_nodes_whose_transactions_collide() {
    let cluster = Cluster::with(&[("deadlock_timeout", "20ms")]).unwrap();
    let stage = Stage::on(&cluster);
    let traffic = stage.traffic();
    stage.wait_for_work(100);
    sql_at(&cluster.url(DATABASE), &STUMBLE).unwrap();
    let over = Arc::new(Sign::default());
    let opponent = {
        let (over, url) = (Arc::clone(&over), cluster.url(DATABASE));
        thread::spawn(move || {
            while !over.is_given() {
                drop(sql_at(&url, &[LOCK_BACKWARDS]));
            }
        })
    };
    pass(Duration::from_secs(if settings::is_soak() { 120 } else { 3 }));
    over.give();
    opponent.join().unwrap();
    cluster.sql(DATABASE, WALK).unwrap();
    let deadlocks = cluster.sql(DATABASE, DEADLOCKS).unwrap();
    println!("{deadlocks} deadlocks");
    assert_ne!(deadlocks, "0");
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

const DEADLOCKS: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
