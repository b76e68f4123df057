//! Migrations that are cut or killed half way, and several at once (fault 31): whoever comes next finishes what was begun.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use semel_cluster::{Cluster, Proxy, Seen, Side, Trap};
use semel_proof::dice::Dice;
use semel_proof::settings;
use semel_store_postgres::MIGRATIONS;

use crate::kit::pause::pass;
use crate::kit::process::semel;
use crate::stage::{NODES, Stage};

/// Everything that migrations make: tables, indexes, sequences, functions, and the list of migrations itself. Partitions
/// come with time.
const INVENTORY: &str = "
    SELECT md5(string_agg(name, ',' ORDER BY name)) FROM (
        SELECT relkind::text || ' ' || relname::text AS name
          FROM pg_class
         WHERE relnamespace = 'semel'::regnamespace AND NOT relispartition
        UNION ALL
        SELECT 'function ' || oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'semel'::regnamespace
        UNION ALL
        SELECT 'migration ' || version::text FROM semel.migration
    ) AS made";

#[test]
fn heavy_nodes_whose_migrations_are_killed() {
    let rounds = if settings::is_soak() { 100 } else { 2 };
    let mut dice = Dice::new(settings::seed());
    let cluster = Cluster::start().unwrap();
    let proxy = Proxy::to(cluster.address()).unwrap();
    let new = |name: String| {
        cluster.sql("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        name
    };
    let clean = new("clean".into());
    assert!(migrate(&cluster.url(&clean)).wait().unwrap().success());
    let expected = cluster.sql(&clean, INVENTORY).unwrap();
    for round in 1..=rounds {
        let name = new(format!("round_{round}"));
        cut(&proxy, &cluster.url_through(proxy.address(), &name), &mut dice);
        kill(migrate(&cluster.url(&name)), &mut dice);
        let crowd: Vec<_> = (0..3).map(|_| migrate(&cluster.url(&name))).collect();
        crowd.into_iter().for_each(|mut one| assert!(one.wait().unwrap().success(), "round {round}"));
        assert_eq!(cluster.sql(&name, INVENTORY).unwrap(), expected, "round {round}");
    }
    let last = new("last".into());
    cut(&proxy, &cluster.url_through(proxy.address(), &last), &mut dice);
    // The nodes migrate by themselves, all at once.
    let stage = Stage::by(&[(); NODES].map(|()| cluster.url(&last)));
    assert_eq!(cluster.sql(&last, INVENTORY).unwrap(), expected);
    let traffic = stage.traffic();
    stage.finish_well(traffic, &cluster.url(&last));
}

fn migrate(url: &str) -> Child {
    let mut command = Command::new(semel());
    command.args(["migrate", "--store", url]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Migrates over a connection that ends somewhere in the middle of what is sent.
fn cut(proxy: &Proxy, url: &str, dice: &mut Dice) {
    let whole: usize = MIGRATIONS.iter().map(|migration| migration.sql.len()).sum();
    proxy.cut_when(Trap { from: Side::Client, when: Seen::Count(1 + dice.index(whole)), deliver: true });
    assert!(!migrate(url).wait().unwrap().success(), "its connection was cut");
}

/// Kills a migration somewhere in the middle of what it does.
fn kill(mut migration: Child, dice: &mut Dice) {
    pass(Duration::from_millis(dice.below(150)));
    migration.kill().unwrap();
    migration.wait().unwrap();
}
