//! Where the time of a publish goes: whose processor time it is, and who waited for a processor while one had nothing to do.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use semel_cluster::Cluster;

use super::super::server::Server;
use crate::bench::procfs::{self, Turns};
use crate::bench::report::Figure;
use crate::failure::Failure;

/// What the kernel has counted until some moment: processes by their ids, since some of a database's come and go.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    nodes: BTreeMap<u32, Turns>,
    database: BTreeMap<u32, Turns>,
    client: BTreeMap<u32, Turns>,
    idle: Duration,
}

impl Look {
    /// Looks at these nodes, at a whole cluster and at this process, the client.
    pub(super) fn at(nodes: &[&Server], cluster: &Cluster) -> Result<Self, Failure> {
        let of = |pid: u32| (pid, procfs::turns_of(pid));
        let database = cluster.processes().map_err(|e| Failure::Broken(e.to_string()))?;
        let idle =
            procfs::idle().ok_or_else(|| Failure::Broken("/proc/stat does not tell idle times".into()))?;
        Ok(Self {
            nodes: nodes.iter().map(|node| of(node.pid())).collect(),
            database: database.into_iter().map(of).collect(),
            client: [of(std::process::id())].into(),
            idle,
        })
    }

    /// What was spent since an earlier look. What a process had that is gone by now is not known.
    pub(super) fn since(&self, before: &Self) -> Spent {
        Spent {
            nodes: difference(&self.nodes, &before.nodes),
            database: difference(&self.database, &before.database),
            client: difference(&self.client, &before.client),
            idle: self.idle.saturating_sub(before.idle),
        }
    }
}

fn difference(after: &BTreeMap<u32, Turns>, before: &BTreeMap<u32, Turns>) -> Turns {
    let mut all = Turns::default();
    after.iter().for_each(|(pid, turns)| all += *turns - before.get(pid).copied().unwrap_or_default());
    all
}

/// Time of this machine's cores.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// By the nodes.
    nodes: Turns,
    /// By PostgreSQL.
    database: Turns,
    /// By this process, the client.
    client: Turns,
    /// By nobody.
    idle: Duration,
}

impl Spent {
    /// Microseconds per job: of nodes, database and client, of nobody, and the waits of all three.
    fn per_job(&self, jobs: u64) -> [f64; 5] {
        let waited = self.nodes.waited + self.database.waited + self.client.waited;
        #[expect(clippy::cast_precision_loss, reason = "there are less than 2^52 jobs")]
        let per_job = |time: Duration| time.as_secs_f64() * 1e6 / jobs as f64;
        [self.nodes.ran, self.database.ran, self.client.ran, self.idle, waited].map(per_job)
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.database += other.database;
        self.client += other.client;
        self.idle += other.idle;
    }
}

/// What one side spent on so many jobs, a round each.
pub(super) fn figures(names: [&'static str; 5], rounds: &[(Spent, u64)]) -> Vec<Figure> {
    let rounds: Vec<_> = rounds.iter().map(|(spent, jobs)| spent.per_job(*jobs)).collect();
    let figure =
        |(place, name)| Figure::new(name, "us a publish", rounds.iter().map(|of| of[place]).collect());
    names.into_iter().enumerate().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_between_two_looks_is_told_for_each_job() {
        let of = |pid, ran, waited| {
            (pid, Turns { ran: Duration::from_millis(ran), waited: Duration::from_millis(waited) })
        };
        let before =
            Look { nodes: [of(1, 5, 1)].into(), database: [of(2, 900, 9)].into(), ..Look::default() };
        let after = Look {
            nodes: [of(1, 15, 2)].into(),
            // The process that was there before is gone, and another has come.
            database: [of(3, 20, 3)].into(),
            client: [of(4, 30, 4)].into(),
            idle: Duration::from_millis(40),
        };
        let mut spent = after.since(&before);
        spent += Spent::default();
        let told = figures(["nodes", "database", "client", "nobody", "waited"], &[(spent, 1000)]);
        let medians: Vec<_> = told.iter().filter_map(|figure| figure.median).collect();
        assert_eq!(medians.iter().map(|us| us.round()).collect::<Vec<_>>(), [10.0, 20.0, 30.0, 40.0, 8.0]);
    }
}
