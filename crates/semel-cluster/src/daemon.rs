//! One server process: started, waited for, and ended.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;

use crate::{
    Error,
    home::Home,
    patience::{PATIENCE, until},
    processes,
    watchdog::Held,
};

/// A server that is one process, in a home of its own. It ends with this guard, and by itself if the process that holds
/// it is killed. If the test panics, the end of the server's log is printed.
#[derive(Debug)]
pub(crate) struct Daemon {
    program: &'static str,
    pub(crate) home: Home,
    server: Option<Child>,
    /// Processes that run beside the server and end with it, not before.
    beside: Vec<Child>,
    watchdog: Option<Held>,
}

impl Daemon {
    /// A home that is watched over, and no process yet.
    pub(crate) fn at(home: Home, program: &'static str) -> Result<Self, Error> {
        let watchdog = Some(Held::over(&home)?);
        Ok(Self { program, home, server: None, beside: Vec::new(), watchdog })
    }

    /// Starts the server, and waits until it is ready.
    pub(crate) fn start(&mut self, command: Command, is_ready: impl Fn() -> bool) -> Result<(), Error> {
        self.server = Some(launch(&self.home, self.program, command, |_| is_ready())?);
        Ok(())
    }

    /// Starts something that the server needs beside it.
    pub(crate) fn accompany(
        &mut self,
        program: &str,
        command: Command,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), Error> {
        self.beside.push(launch(&self.home, program, command, |_| is_ready())?);
        Ok(())
    }

    /// Asks the server to end in an orderly way, and waits. Nothing, if it is stopped.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.end_by(Signal::TERM)
    }

    /// Kills the server. Nothing, if it is stopped.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        self.end_by(Signal::KILL)
    }

    /// Sends a signal that does not end it, such as STOP and CONT.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        self.server.as_ref().map_or(Ok(()), |server| processes::signal(server.id(), signal))
    }

    fn end_by(&mut self, signal: Signal) -> Result<(), Error> {
        let Some(server) = &mut self.server else { return Ok(()) };
        processes::signal(server.id(), signal)?;
        let ended = until(PATIENCE, || server.try_wait().map_err(Error::io("wait for a server")))?;
        match ended {
            Some(_) => self.server = None,
            None => return Err(too_late(format!("end of {}", self.program), &self.home)),
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the end of the log of {}\n{}", self.program, self.home.log_tail());
        }
        drop(self.watchdog.take());
        for mut process in self.server.take().into_iter().chain(self.beside.drain(..)) {
            if let Err(error) = process.wait() {
                eprintln!("semel-cluster: a process of {} is lost: {error}", self.program);
            }
        }
    }
}

/// Starts a process that writes to the home's log, notes its number for the watchdog, and waits until it is ready.
///
/// The number is that of the process only if the command names a path in the home: the watchdog ends no other.
pub(crate) fn launch(
    home: &Home,
    program: &str,
    mut command: Command,
    is_ready: impl Fn(u32) -> bool,
) -> Result<Child, Error> {
    let log = File::options().create(true).append(true).open(home.log());
    let log = log.map_err(Error::path("open", home.log()))?;
    let errors = log.try_clone().map_err(Error::io("share a log"))?;
    // What ends the test's process group is not meant for the server: its watchdog ends it.
    command.process_group(0).stdin(Stdio::null()).stdout(log).stderr(errors);
    let mut child = command.spawn().map_err(Error::io(format!("start {program}")))?;
    home.write(&format!("{program}.pid"), &child.id().to_string())?;
    let ready = until(PATIENCE, || match child.try_wait().map_err(Error::io("look after a server"))? {
        Some(_) => Err(Error::Failed { program: program.to_owned(), output: home.log_tail() }),
        None => Ok(is_ready(child.id()).then_some(())),
    })?;
    match ready {
        Some(()) => Ok(child),
        None => Err(too_late(format!("start of {program}"), home)),
    }
}

fn too_late(what: String, home: &Home) -> Error {
    Error::TooLate { what, limit: PATIENCE, log: home.log_tail() }
}
