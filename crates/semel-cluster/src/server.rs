//! One PostgreSQL server: its data directory is made, it is started and waited for.

use std::process::{Child, Stdio};

use crate::{
    Error,
    daemon::launch,
    home::Home,
    programs::{program, server_version},
    sql::succeeded,
    url::USER,
};

/// Settings given on the command line, where nothing in the data directory overrides them.
pub(crate) type Settings = Vec<(String, String)>;

/// `settings(&[("fsync", "off")])`.
pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Makes the data directory. With a password the superuser may come by TCP, without one only through the socket, which
/// only the account can reach.
pub(crate) fn initialise(home: &Home, password: Option<&str>) -> Result<(), Error> {
    let mut command = home.account.command(&program("initdb")?);
    command.arg("--pgdata").arg(home.data()).args(["--username", USER, "--encoding=UTF8", "--locale=C"]);
    command.args(["--no-sync", "--auth-local=trust"]);
    if server_version()? >= 15 {
        // Production databases rarely sort by bytes. SQL that forgets to ask for it must not pass here.
        command.args(["--locale-provider=icu", "--icu-locale=en"]);
    }
    match password {
        Some(password) => {
            let file = home.write("password", password)?;
            // The password crosses the loopback in plain text: SCRAM would cost every connection of an unoptimised
            // test 50 ms, and guards nothing here. There is a password at all because other users of the machine
            // could otherwise become the account.
            command.arg("--auth-host=password").arg("--pwfile").arg(file);
        }
        None => {
            command.arg("--auth-host=reject");
        }
    }
    let output = command.stdin(Stdio::null()).output().map_err(Error::io("run initdb"))?;
    succeeded("initdb", &output).map(drop)
}

/// Starts a server on a directory that was initialised, and waits until it answers.
pub(crate) fn start(home: &Home, port: u16, settings: &Settings) -> Result<Child, Error> {
    let mut command = home.account.command(&program("postgres")?);
    command.arg("-D").arg(home.data()).args(["-p", &port.to_string()]).arg("-k").arg(home.path());
    for (name, value) in settings {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    launch(home, "postgres", command, |pid| is_ready(home, pid))
}

/// The postmaster writes into this file how far it got. A file of a killed predecessor names another process.
fn is_ready(home: &Home, pid: u32) -> bool {
    let text = std::fs::read_to_string(home.data().join("postmaster.pid")).unwrap_or_default();
    let mut lines = text.lines();
    let named = lines.next() == Some(pid.to_string().as_str());
    // The eighth line: `starting`, `stopping`, `ready`, or `standby` for a replica that answers reads.
    named && matches!(lines.nth(6).map(str::trim), Some("ready" | "standby"))
}
