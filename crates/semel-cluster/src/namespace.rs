//! A machine of its own, as far as the network is concerned: what runs in it reaches this one by a cable that loses
//! what it is told to lose.
//!
//! This is the real thing where a [`crate::Proxy`] only pretends: packets vanish, and the system's own timers find out.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{Error, Side, account, home::Home, programs::program, sql::succeeded, watchdog::Held};

/// A network namespace with one interface. It needs root, `ip` and `nft`; where it cannot be made, a test says so and
/// skips. It ends with this guard, and by itself if the process is killed; what was started in it does not.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    host: Ipv4Addr,
    address: Ipv4Addr,
    _watchdog: Held,
}

impl Namespace {
    /// A namespace whose cable is sound.
    pub fn create() -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // The name of an interface has fifteen letters at most.
        let name = format!("sml{process}n{count}");
        let (host, address) = addresses(process.wrapping_mul(5).wrapping_add(count));
        let home = Home::on_disk(account::POSTGRES)?;
        let note = home.path().join("namespace");
        let watchdog = Held::over(&home)?;
        std::fs::write(&note, &name).map_err(Error::path("write", &note))?;
        let namespace = Self { name, host, address, _watchdog: watchdog };
        namespace.connect()?;
        Ok(namespace)
    }

    /// This machine, seen from inside. A [`crate::Proxy`] that listens there leads to a cluster.
    pub fn host(&self) -> IpAddr {
        self.host.into()
    }

    /// The namespace, seen from this machine.
    pub fn address(&self) -> IpAddr {
        self.address.into()
    }

    /// A command that will run inside.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.env("PATH", path()).args(["ip", "netns", "exec", &self.name]).arg(program.as_ref());
        command
    }

    /// From now on so many percent of the packets are lost that belong to connections to this port of the host.
    /// [`Side::Client`] is what runs inside. One hundred for one side is a one-way partition, for both a whole one.
    pub fn lose(&self, from: Side, port: u16, percent: u8) -> Result<(), Error> {
        let (chain, end) = match from {
            Side::Client => ("output", "dport"),
            Side::Server => ("input", "sport"),
        };
        let dice = if percent < 100 { format!("numgen random mod 100 < {percent}") } else { String::new() };
        self.nft(&format!("add rule inet semel {chain} tcp {end} {port} {dice} counter drop"))
    }

    /// Nothing is lost any more.
    pub fn heal(&self) -> Result<(), Error> {
        self.nft("flush table inet semel")
    }

    /// How many packets were lost since the cable was last sound.
    pub fn lost(&self) -> Result<u64, Error> {
        let mut command = self.command(program("nft")?);
        let rules = finish("nft", command.args(["list", "table", "inet", "semel"]))?;
        let counts = rules.split("counter packets ").skip(1);
        Ok(counts.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).sum())
    }

    fn connect(&self) -> Result<(), Error> {
        let (name, host, address) = (&self.name, self.host, self.address);
        for command in [
            format!("netns add {name}"),
            format!("link add {name} type veth peer name cable netns {name}"),
            format!("addr add {host}/30 dev {name}"),
            format!("link set {name} up"),
            format!("-n {name} addr add {address}/30 dev cable"),
            format!("-n {name} link set cable up"),
            format!("-n {name} link set lo up"),
        ] {
            finish(&format!("ip {command}"), Command::new(program("ip")?).args(command.split(' ')))?;
        }
        self.nft("add table inet semel")?;
        self.nft("add chain inet semel input { type filter hook input priority 0; }")?;
        self.nft("add chain inet semel output { type filter hook output priority 0; }")
    }

    fn nft(&self, rule: &str) -> Result<(), Error> {
        finish(&format!("nft {rule}"), self.command(program("nft")?).arg(rule)).map(drop)
    }
}

/// Addresses of the two ends of a cable: a network of four addresses for each number, from a part of the private range
/// that hardly anybody uses.
fn addresses(number: u32) -> (Ipv4Addr, Ipv4Addr) {
    let first = u32::from(Ipv4Addr::new(10, 203, 0, 0)) + number % (1 << 14) * 4;
    (Ipv4Addr::from(first + 1), Ipv4Addr::from(first + 2))
}

fn finish(what: &str, command: &mut Command) -> Result<String, Error> {
    let output: Output = command.stdin(Stdio::null()).output().map_err(Error::io(format!("run {what}")))?;
    succeeded(what, &output)
}

/// `ip` is where only root's PATH looks.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_network_of_its_own() {
        let ends = |number| {
            let (host, inside) = addresses(number);
            format!("{host} {inside}")
        };
        assert_eq!(ends(0), "10.203.0.1 10.203.0.2");
        assert_eq!(ends(1), "10.203.0.5 10.203.0.6");
        assert_eq!(ends((1 << 14) - 1), "10.203.255.253 10.203.255.254");
        assert_eq!(ends(1 << 14), ends(0));
    }
}
