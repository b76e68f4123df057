//! Backups: a cluster as it was, and what is made of that.

use std::process::Stdio;

use crate::{
    Cluster, Error,
    account::POSTGRES,
    home::Home,
    patience::{PATIENCE, until},
    programs::program,
    replica::{copy, mark},
    sql::succeeded,
    url::USER,
};

impl Cluster {
    /// A backup of a running cluster, as it is now, in memory if there is enough. [`Cluster::restore`] makes a server of it.
    pub fn backup(&self) -> Result<Self, Error> {
        let mut backup = Self::prepared(Home::in_memory(POSTGRES)?, self.password.clone())?;
        copy(self, &backup)?;
        // An archive that has nothing: what the backup itself brought is all there is.
        backup.set("restore_command", "false");
        mark(&backup, "recovery.signal")?;
        Ok(backup)
    }

    /// Starts a server from a backup, which goes on in a timeline of its own, and waits until it accepts writes.
    pub fn restore(&mut self) -> Result<(), Error> {
        self.restart()?;
        let look = || Ok((self.sql("postgres", "SELECT pg_is_in_recovery()")? == "f").then_some(()));
        until(PATIENCE, look)?.ok_or_else(|| self.too_late("end of recovery"))
    }

    /// Copies a database into a new one by a dump that is loaded.
    pub fn dump_into(&self, database: &str, new: &str) -> Result<(), Error> {
        self.sql("postgres", &format!("CREATE DATABASE {new} TEMPLATE template0"))?;
        let path = self.directory().join(format!("{new}.sql"));
        let mut dump = self.client("pg_dump")?;
        dump.args(["--dbname", database]).arg("--file").arg(&path);
        let output = dump.output().map_err(Error::io("run pg_dump"))?;
        succeeded("pg_dump", &output)?;
        let mut load = self.client("psql")?;
        load.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", new]);
        let output = load.arg("--file").arg(&path).output().map_err(Error::io("run psql"))?;
        succeeded("psql", &output).map(drop)
    }

    /// A program that connects through the socket as superuser.
    fn client(&self, name: &str) -> Result<std::process::Command, Error> {
        let mut command = self.home.account.command(&program(name)?);
        command.arg("--host").arg(self.directory()).args(["--port", &self.port().to_string()]);
        command.args(["--username", USER, "--no-password"]).stdin(Stdio::null());
        Ok(command)
    }
}
