//! Streaming replicas, and the change of the primary.

use std::{net::SocketAddr, process::Stdio};

use crate::{
    Cluster, Error, account,
    home::Home,
    patience::{PATIENCE, until},
    programs::program,
    sql::succeeded,
    url::USER,
};

/// What a commit on the primary waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// Until the replica has it on its disk: what was acknowledged survives the primary.
    Sync,
    /// Only for the primary's own disk: what the replica has not received yet is lost with the primary.
    Async,
}

impl Cluster {
    /// A replica of a running cluster, in memory if there is enough, streaming when this returns.
    pub fn replica(primary: &Self, replication: Replication) -> Result<Self, Error> {
        Self::replica_through(primary, primary.address(), replication)
    }

    /// The same, with the stream led through something that can delay or cut it, such as a [`crate::Proxy`].
    pub fn replica_through(
        primary: &Self,
        address: SocketAddr,
        replication: Replication,
    ) -> Result<Self, Error> {
        let mut replica = Self::prepared(Home::in_memory(account::POSTGRES)?, primary.password.clone())?;
        copy(primary, &replica)?;
        mark(&replica, "standby.signal")?;
        let name = replica.name();
        let (host, port, password) = (address.ip(), address.port(), &primary.password);
        replica.set(
            "primary_conninfo",
            &format!("host={host} port={port} user={USER} password={password} application_name={name}"),
        );
        replica.restart()?;
        primary.wait_for_replica(&replica, "state = 'streaming'")?;
        if replication == Replication::Sync {
            primary.commit_waits_for(&replica)?;
        }
        Ok(replica)
    }

    /// Makes a replica the primary, and waits until it accepts writes.
    pub fn promote(&self) -> Result<(), Error> {
        let seconds = PATIENCE.as_secs();
        match self.sql("postgres", &format!("SELECT pg_promote(true, {seconds})"))?.as_str() {
            "t" => Ok(()),
            _ => Err(self.too_late("promotion")),
        }
    }

    /// Waits until a replica has replayed everything that was committed here before this call.
    pub fn wait_until_replayed(&self, replica: &Self) -> Result<(), Error> {
        let position = self.sql("postgres", "SELECT pg_current_wal_lsn()")?;
        self.wait_for_replica(replica, &format!("replay_lsn >= '{position}'"))
    }

    /// From now on commits wait for no replica. Those that already wait go on.
    pub fn commit_waits_for_nobody(&self) -> Result<(), Error> {
        self.set_standbys("")
    }

    fn commit_waits_for(&self, replica: &Self) -> Result<(), Error> {
        self.set_standbys(&replica.name())?;
        self.wait_for_replica(replica, "sync_state = 'sync'")
    }

    fn set_standbys(&self, names: &str) -> Result<(), Error> {
        self.sql("postgres", &format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"))?;
        self.sql("postgres", "SELECT pg_reload_conf()").map(drop)
    }

    fn wait_for_replica(&self, replica: &Self, condition: &str) -> Result<(), Error> {
        let name = replica.name();
        let look = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND {condition}"
        );
        let seen = until(PATIENCE, || Ok((self.sql("postgres", &look)? == "1").then_some(())))?;
        seen.ok_or_else(|| replica.too_late(condition))
    }

    /// What a replica calls itself towards its primary.
    fn name(&self) -> String {
        format!("replica_{}", self.port())
    }
}

/// Fills the data directory of a replica, or of a backup, from the primary.
pub(crate) fn copy(primary: &Cluster, replica: &Cluster) -> Result<(), Error> {
    let mut command = replica.home.account.command(&program("pg_basebackup")?);
    command.arg("--pgdata").arg(replica.data()).arg("--host").arg(primary.directory());
    command.args(["--port", &primary.port().to_string(), "--username", USER]);
    command.args(["--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
    let output = command.stdin(Stdio::null()).output().map_err(Error::io("run pg_basebackup"))?;
    succeeded("pg_basebackup", &output)?;
    // What the primary was told at run time, such as whom its commits wait for, is not meant for its replica.
    mark(replica, "postgresql.auto.conf")
}

/// Leaves an empty file in the data directory.
pub(crate) fn mark(replica: &Cluster, empty_file: &str) -> Result<(), Error> {
    let path = replica.data().join(empty_file);
    std::fs::write(&path, "").map_err(Error::path("write", &path))?;
    replica.home.account.own(&path)
}
