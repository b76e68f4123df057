//! The server of the database misbehaves: it ends all connections every two seconds (fault 23), is killed (fault 24), or has
//! no connection left (fault 28).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use semel_cluster::{Cluster, sql_at};
use semel_proof::settings;

use crate::kit::pause::{Sign, pass};
use crate::stage::{DATABASE, Stage};

#[test]
fn heavy_nodes_whose_backends_are_terminated() {
    let rounds = if settings::is_soak() { 60 } else { 2 };
    let cluster = Cluster::start().unwrap();
    let stage = Stage::on(&cluster);
    let traffic = stage.traffic();
    for _ in 0..rounds {
        pass(Duration::from_secs(2));
        let ended = cluster.terminate_backends().unwrap();
        assert!(ended > 0, "there was nothing to end");
    }
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

#[test]
fn heavy_nodes_whose_postmaster_is_killed() {
    let rounds = if settings::is_soak() { 30 } else { 2 };
    let mut cluster = Cluster::start().unwrap();
    let stage = Stage::on(&cluster);
    let traffic = stage.traffic();
    for _ in 0..rounds {
        stage.wait_for_work(200);
        cluster.kill().unwrap();
        pass(Duration::from_secs(1));
        cluster.restart().unwrap();
    }
    stage.wait_for_work(100);
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

/// Another program takes every connection it can get, and has those of the nodes ended.
#[test]
fn heavy_nodes_without_connections() {
    let cluster =
        Cluster::with(&[("max_connections", "20"), ("superuser_reserved_connections", "0")]).unwrap();
    let stage = Stage::on(&cluster);
    let traffic = stage.traffic();
    stage.wait_for_work(100);
    let crowd = Crowd::gather(&cluster.url(DATABASE), 20);
    pass(Duration::from_secs(if settings::is_soak() { 120 } else { 3 }));
    let turned_away = crowd.leave();
    println!("others were turned away {turned_away} times");
    assert!(turned_away > 0, "there were connections for everybody");
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

const END_CONNECTIONS: &str =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'semel %'";

/// Clients that hold a connection for a second, and come again. Every fifth has ended those of the nodes before.
struct Crowd {
    over: Arc<Sign>,
    turned_away: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn gather(url: &str, clients: usize) -> Self {
        let (over, turned_away) = (Arc::new(Sign::default()), Arc::new(AtomicU64::new(0)));
        let join = |number: usize| {
            let (url, over, turned_away) = (url.to_owned(), Arc::clone(&over), Arc::clone(&turned_away));
            let first = if number.is_multiple_of(5) { END_CONNECTIONS } else { "SELECT 1" };
            thread::spawn(move || {
                while !over.is_given() {
                    if sql_at(&url, &[first, "SELECT pg_sleep(1)"]).is_err() {
                        turned_away.fetch_add(1, Ordering::Relaxed);
                        over.wait(Duration::from_millis(100));
                    }
                }
            })
        };
        let clients = (0..clients).map(join).collect();
        Self { over, turned_away, clients }
    }

    /// Ends them, and says how often one was turned away.
    fn leave(self) -> u64 {
        self.over.give();
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        self.turned_away.load(Ordering::Relaxed)
    }
}
